"""Fuzz tests of every parser of foreign bytes: by hypothesis in CI, by atheris in `make fuzz`."""
