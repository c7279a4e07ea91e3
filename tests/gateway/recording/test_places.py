from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from dragoman.gateway.recording.places import OURS, Folder, OneFile, has_recording_name, part_names, place, siblings
from dragoman.mappings.errors import ConfigError

START = 1_700_000_000_123_456_789
SESSION = "5b1c8c7e-0d4e-5c1a-9f0e-2f6a3c1d7e90"


def names_of(place: Folder | OneFile, session: str, part: int = 0) -> Iterator[Path]:
    return place.names(place.stem(session, START), part)


def test_a_name_in_a_folder_is_start_and_session(tmp_path: Path) -> None:
    first, second = islice(names_of(Folder(tmp_path), SESSION), 2)
    assert first == tmp_path / f"20231114T221320Z-{SESSION}.jsonl"
    assert second == tmp_path / f"20231114T221320Z-{SESSION}~2.jsonl"


def test_a_further_part_has_its_number(tmp_path: Path) -> None:
    assert next(names_of(Folder(tmp_path), "s", 3)).name == "20231114T221320Z-s.3.jsonl"


@pytest.mark.parametrize("session", ["../../etc/passwd", "a/b", "a\x00b", "", "ä" * 300, ".", "a\nb", "con:1"])
def test_the_file_of_a_session_with_any_id_stays_in_the_folder(tmp_path: Path, session: str) -> None:
    for part in (0, 1):
        path = next(names_of(Folder(tmp_path), session, part))
        assert path.parent == tmp_path
        assert path.resolve().parent == tmp_path.resolve()
        assert len(path.name) < 200
        assert OURS.fullmatch(path.name)


def test_ids_that_differ_in_unsafe_characters_have_different_names(tmp_path: Path) -> None:
    names = {next(names_of(Folder(tmp_path), session)) for session in ("a/b", "a:b", "a_b", "a b", "ä" * 300)}
    assert len(names) == 5


def test_only_names_that_a_folder_gives_are_recognized() -> None:
    for name in ("notes.jsonl", "20231114T221320Z-s.json", ".20231114T221320Z-s.jsonl", "20231114T221320Z-s.jsonl.bak"):
        assert not OURS.fullmatch(name)
    assert OURS.fullmatch("20231114T221320Z-s~2.4.jsonl.zst")


def test_the_first_session_gets_the_file_and_others_stand_beside_it(tmp_path: Path) -> None:
    one = OneFile(tmp_path / "out.rec")
    first, second = (one.stem(session, START) for session in "ab")
    assert next(one.names(first, 0)).name == "out.rec"
    assert next(one.names(second, 0)).name == "out-2.rec"
    assert next(one.names(first, 1)).name == "out.1.rec"


def test_a_session_without_an_input_does_not_get_the_name_of_a_file(tmp_path: Path) -> None:
    one = OneFile(tmp_path / "out.rec")
    assert one.stem("", START, route="r") == "out-route"
    assert one.stem("idle", START, has_input=False) == "out-2"
    assert one.stem("a", START) == "out"
    assert one.stem("b", START) == "out-3"


@pytest.mark.parametrize("text", ["{}/", "{}/new/", "{}/new"])
def test_an_existing_folder_or_a_name_like_one_is_a_folder(tmp_path: Path, text: str) -> None:
    assert isinstance(place(text.format(tmp_path)), Folder)


def test_a_name_with_a_suffix_is_a_file(tmp_path: Path) -> None:
    assert isinstance(place(f"{tmp_path}/out.jsonl"), OneFile)


def test_a_file_that_exists_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").touch()
    (tmp_path / "out").touch()
    with pytest.raises(ConfigError, match="not overwritten"):
        place(f"{tmp_path}/out.jsonl")
    with pytest.raises(ConfigError, match="is a file: name a folder"):
        place(f"{tmp_path}/out")


def test_an_invalid_path_for_recordings_is_refused() -> None:
    with pytest.raises(ConfigError, match="recordings need a place"):
        place("")
    with pytest.raises(ConfigError, match=r"compressed only after its end: name it out\.jsonl"):
        place("out.jsonl.zst")


def test_parts_of_a_recording_are_recognized_by_their_names(tmp_path: Path) -> None:
    own = ["a.jsonl", "a.1.jsonl.zst", "a~2.1.jsonl", "a.12.jsonl"]
    for name in (*own, "a-2.jsonl", "b.jsonl", "aa.jsonl", ".a.jsonl", "a.1.html", "a.x.jsonl", "a.jsonl.12"):
        (tmp_path / name).touch()
    for name, part in (("a.jsonl", 0), ("a.1.jsonl.zst", 1), ("a~2.1.jsonl", 1), ("a.12.jsonl", 12)):
        assert sorted(path.name for path in siblings(tmp_path / name, part)) == sorted(own)
    assert siblings(tmp_path / "a.12.jsonl", 1) == [tmp_path / "a.12.jsonl"]  # somebody called it so


@pytest.mark.parametrize("name", ["out.jsonl", "out.rec", "out.v2.jsonl"])
def test_the_parts_of_a_file_are_its_siblings(tmp_path: Path, name: str) -> None:
    paths = [next(names_of(OneFile(tmp_path / name), "s", part)) for part in range(3)]
    for path in paths:
        path.touch()
    for part, path in enumerate(paths):
        assert sorted(siblings(path, part)) == sorted(paths)


def test_part_names_are_those_that_a_file_gives(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert list(part_names(out, [0, 1])) == [out, next(names_of(OneFile(out), "s", 1))]
    packed = part_names(tmp_path / "out.jsonl.zst", [2, 3, 7])
    assert [path.name for path in packed] == ["out.jsonl.zst", "out.3.jsonl.zst", "out.7.jsonl.zst"]


def test_only_plain_and_compressed_jsonl_files_are_named_like_recordings() -> None:
    assert [has_recording_name(Path(name)) for name in ("a.jsonl", "a.jsonl.zst", ".a.jsonl.zst.12", "a.html")] == [
        True,
        True,
        False,
        False,
    ]


def test_the_folder_of_an_unknown_user_is_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert [place(text).folder for text in ("~/r/", "~nobody-at-all/r/")] == [tmp_path / "r", Path("~nobody-at-all/r")]
