"""Find keys and tokens that begin with a fixed prefix: search for all prefixes at once, then for their formats.

A key begins after a character of no word, so the search reads on quickly inside words and base64. A format reads at
most as many characters as it needs before it fails, so a text costs time in proportion to its size.

KEY_TABLE has the formats as their makers publish them. Each line has a kind, the alphabet and length of the part after
the prefix, and the prefixes. A length is a minimum; `=32` is an exact length, and `22.6` are two parts joined by a dot.
`+digit` means that a digit must occur in that part. A prefix `*:AA` does not begin a word: its sign follows a letter or
digit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, groupby
from typing import Literal

from msgspec import Struct

ALPHABETS = {
    "alnum": "A-Za-z0-9",
    "lower": "a-z0-9",
    "upper": "A-Z0-9",
    "hex": "A-Fa-f0-9",
    "hex-": "A-Fa-f0-9-",
    "alnum-": "A-Za-z0-9-",
    "upper-": "A-Z0-9-",
    "name": "A-Za-z0-9_",
    "word": "A-Za-z0-9_-",
    "dotted": "A-Za-z0-9_.-",
    "base64": "A-Za-z0-9+/=_-",
    "url": "A-Za-z0-9%@/_.-",
}
"""Name of an alphabet -> its characters, as in a character class."""

KEY_TABLE = """
anthropic_key        word          20        sk-ant-
openai_key           word          20        sk-proj- sk-svcacct- sk-admin-
openrouter_key       hex           40        sk-or-v1-
langfuse_key         hex-          36        sk-lf-
api_key              word+digit    20        sk-
groq_key             alnum         40        gsk_
xai_key              alnum         60        xai-
google_key           word          30        AIza
google_token         word          30        ya29. 1//0
google_secret        word          24        GOCSPX-
huggingface_token    alnum         30        hf_ api_org_
replicate_token      alnum         30        r8_
perplexity_key       alnum         40        pplx-
fireworks_key        alnum         20        fw_
nvidia_key           word          40        nvapi-
cerebras_key         alnum         40        csk-
together_key         word          30        tgp_v1_
elevenlabs_key       hex           40        sk_
langsmith_key        name          30        lsv2_pt_ lsv2_sk_
tavily_key           alnum-        20        tvly-
voyage_key           word+digit    40        pa-
pinecone_key         name          40        pcsk_
wandb_key            name          40        wandb_v1_
cursor_key           hex           60        key_
jina_key             word          40        jina_
firecrawl_key        hex           32        fc-
modal_token          alnum+digit   22        ak- as-
e2b_key              hex           40        e2b_
browserbase_key      word          20        bb_live_
runpod_key           alnum         40        rpa_
friendli_token       alnum         40        flp_
kaggle_token         hex           32        KGAT_
coze_token           alnum         60        pat_
apify_token          alnum         30        apify_api_
github_token         name          22        ghp_ gho_ ghu_ ghs_ ghr_ github_pat_
gitlab_token         dotted        20        glpat- gldt- glrt- glptt- glcbt- glft- glsoat- glimt- gloas-
gitlab_runner_token  word          20        GR1348941
bitbucket_token      alnum         28        ATBB
atlassian_token      base64        60        ATATT3 ATCTT3 ATSTT3
trello_token         hex           60        ATTA
circleci_token       name          40        CCIPAT_ CCIPRJ_
buildkite_token      alnum         40        bkua_
sourcegraph_token    name          40        sgp_ sgd_
sonarqube_token      hex           40        squ_ sqp_ sqa_
deepsource_token     alnum         30        dsp_
chromatic_token      lower         12        chpt_
gitpod_token         dotted        20        gitpod_pat_
codesandbox_token    word          30        csb_v1_
deno_token           alnum         30        ddp_ ddo_
vercel_token         alnum         24        vcp_ vci_ vca_ vcr_ vck_
netlify_token        alnum         30        nfp_ nfc_ nfo_ nfu_
heroku_key           word          30        HRKU-
render_key           alnum         20        rnd_
fly_token            base64        40        fo1_ fm1_ fm2_ fm1a_ fm1r_
scalingo_token       word          40        tk-us-
terraform_token      base64        60        *.atlasv1.
vault_token          word          24        hvs. hvb. hvr.
doppler_token        dotted        40        dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.
onepassword_token    base64        100       ops_eyJ
onepassword_key      upper-        30        A3-
pulumi_token         hex           40        pul-
prefect_key          alnum         36        pnu_ pnb_
databricks_token     hex           32        dapi dose
dbt_token            base64        30        dbtc_ dbtu_
planetscale_token    dotted        30        pscale_tkn_ pscale_pw_ pscale_oauth_
supabase_token       hex           40        sbp_
supabase_key         word          20        sb_secret_
neon_key             alnum         40        napi_
mongodb_secret       word          30        mdb_sa_sk_
clickhouse_key       alnum         =38       4b1d
cockroach_key        name          40        CCDB1_
tigris_key           name          40        tsec_
xata_key             alnum         30        xau_
fauna_key            word          36        fnAE
aiven_password       word          16        AVNS_
confluent_secret     base64        60        cflt
elastic_key          base64        40        essu_
tinybird_token       dotted        60        p.eyJ
airtable_token       alnum         14.64     pat
notion_token         alnum         40        ntn_ secret_
linear_key           alnum         32        lin_api_ lin_oauth_
figma_token          word          30        figd_ figo_ figu_
contentful_token     word          40        CFPAT-
sanity_token         alnum         100       sk
readme_key           lower         40        rdme_
typeform_token       dotted        40        tfp_
postman_key          hex-          50        PMAK-
postman_token        alnum         20        PMAT-
retool_key           name+digit    20        retool_
digitalocean_token   hex           40        dop_v1_ doo_v1_ dor_v1_
alibaba_key          alnum+digit   16        LTAI
tencent_key          alnum+digit   32        AKID
yandex_key           word          35        AQVN
yandex_token         word          50        y0_ y1_ y2_ y3_
yandex_iam_token     dotted        100       t1.
baidu_key            url           40        bce-v3/
aws_key              upper         16        AKIA ASIA ABIA ACCA
aws_bedrock_key      base64        100       ABSK bedrock-api-key-
aws_mws_token        hex-          36        amzn.mws.
cloudflare_ca_key    hex-          100       v1.0-
nuget_key            lower         =43       oy2
npm_token            alnum         30        npm_
pypi_token           word          30        pypi-AgE
rubygems_key         hex           40        rubygems_
crates_token         alnum+digit   =32       cio
docker_token         word          20        dckr_pat_ dckr_oat_
artifactory_key      alnum         60        AKCp
artifactory_token    alnum         50        cmVmdGtu
clojars_token        lower         50        CLOJARS_
packagist_token      name          40        packagist_
openshift_token      word          40        sha256~
grafana_token        name          40        glsa_
grafana_cloud_key    base64        32        glc_
grafana_api_key      base64        60        eyJrIjoi
newrelic_key         word          19        NRAK- NRII- NRIQ- NRRA- NRJS-
dynatrace_token      alnum         24.64     dt0c01. dt0s01. dt0s16.
sentry_token         base64        40        sntrys_ sntryu_
honeycomb_key        lower         50        hcaik_ hcxik_ hcbik_
logfire_token        name          40        pylf_v1_
posthog_key          alnum         40        phx_ phs_
launchdarkly_key     hex-          36        sdk- api-
statsig_key          alnum         40        secret-
flagsmith_key        alnum         20        ser.
axiom_token          hex-          36        xaat- xapt-
checkly_key          hex           32        cu_
rootly_key           hex           40        rootly_
infracost_key        alnum         32        ico-
slack_token          alnum-+digit  12        xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xapp- xwfp-
slack_webhook        url           30        hooks.slack.com/services/ hooks.slack.com/workflows/
discord_token        word          22.6.27   MD MT Mj Mz ND NT Nj Nz OD OT
discord_webhook      word          17/60     discord.com/api/webhooks/ discordapp.com/api/webhooks/
teams_webhook        url           60        webhook.office.com/webhookb2/
zapier_webhook       url           10        hooks.zapier.com/hooks/catch/
telegram_token       word          =33       *:AA
matrix_token         name          20        syt_
twilio_key           hex           =32       SK
sendgrid_key         dotted        40        SG.
mailgun_key          hex           =32       key-
mailersend_token     hex           60        mlsn.
brevo_key            alnum-        70        xkeysib- xsmtpsib-
resend_key           alnum         8_20      re_
onesignal_key        lower         60        os_v2_app_ os_v2_org_
telnyx_key           name          40        KEY0
courier_key          upper         24        pk_prod_
intercom_token       base64        50        dG9rO
hubspot_token        hex-          36        pat-na1- pat-na2- pat-eu1- pat-ap1-
klaviyo_key          hex           =34       pk_
salesforce_token     dotted        12!60     00D
shopify_token        hex           30        shpat_ shpca_ shppa_ shpss_
shippo_token         hex           40        shippo_live_ shippo_test_
easypost_key         alnum         54        EZAK EZTK
lob_key              hex           35        live_ test_
square_token         word          60        EAAA
square_secret        word          22        sq0atp- sq0csp-
stripe_key           alnum         16        sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ whsec_
braintree_token      lower         16$32     access_token$production$ access_token$sandbox$
razorpay_key         alnum         14        rzp_live_ rzp_test_
flutterwave_key      alnum-        30        FLWSECK- FLWSECK_TEST-
plaid_token          hex-          36        access-sandbox- access-development- access-production-
duffel_token         word          40        duffel_live_ duffel_test_
ramp_secret          alnum         40        ramp_sec_
mercury_token        word          30        mercury_production_
asaas_key            base64        60        $aact_
polar_token          alnum         32        polar_pat_ polar_oat_
onfido_token         word          20        api_live. api_live_us. api_live_ca. api_sandbox.
stytch_secret        base64        30        secret-live- secret-test-
facebook_token       alnum         80        EAA
instagram_token      word          100       IGQV IGAA
twitter_token        url+digit     80        AAAAAAAAAAAAAAAAAAAAA
linkedin_secret      base64        12        WPL_AP1.
pinterest_token      alnum         30        pina_
vk_token             word          80        vk1.a.
dropbox_token        dotted        100       sl.
adobe_secret         word          28        p8e-
frameio_token        word          60        fio-u-
mapbox_token         dotted        60        sk.eyJ
jumpcloud_key        alnum         36        jca_
tailscale_key        alnum-        20        tskey-
defined_key          alnum-        60        dnkey-
wakatime_key         hex-          36        waka_
octopus_key          upper         24        API-
harness_token        word          20.20.20  pat. sat.
kong_token           alnum         40        kpat_ spat_
zuplo_key            name          40        zpka_
liveblocks_key       word          40        sk_dev_
trigger_key          alnum         20        tr_dev_ tr_prod_
inngest_key          hex           40        signkey-prod- signkey-test-
unkey_key            alnum         20        unkey_
adafruit_key         name          26        aio_
age_key              upper         58        AGE-SECRET-KEY-1
nostr_key            lower         58        nsec1
bitcoin_key          alnum         100       xprv
"""

LEAST = 12  # characters: keys are longer, most words are shorter
LARGE = 1024 * 1024  # characters: less than 80,000 keys
PIECE = 64 * 1024  # characters that are searched in one call, which takes about 1 ms: all other threads wait for it
BEYOND = 64  # further characters that are searched: more than any prefix has
CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!$%+-./=@_~"  # of any key
LENGTH = re.compile(r"(?P<exact>=?)(?P<first>[0-9]+)(?P<rest>(?:[^0-9][0-9]+)*)\Z")


class KeyFormat(Struct, frozen=True, kw_only=True):
    """The format of a kind of key with one of its prefixes. `sign` precedes a key that begins no word."""

    kind: str
    prefix: str
    sign: str
    alphabet: str
    exact: bool
    digit: bool
    lengths: tuple[int, ...]
    separators: tuple[str, ...]

    @property
    def body(self) -> str:
        """The pattern of the part after the prefix. It never backtracks."""
        some = f"[{ALPHABETS[self.alphabet]}]"
        if self.exact:
            return f"{some}{{{self.lengths[0]}}}(?!{some})"
        parts = [f"{some}{{{length},}}+" for length in self.lengths]
        joined = parts[0] + "".join(re.escape(s) + part for s, part in zip(self.separators, parts[1:], strict=True))
        return rf"(?={some[:-1].replace('0-9', '')}]*+[0-9])" + joined if self.digit else joined

    @property
    def characters(self) -> str:
        """The pattern of one character after the prefix."""
        return f"[{''.join(map(re.escape, self.separators))}{ALPHABETS[self.alphabet]}]"


PrefixPatterns = tuple[list[tuple[str, re.Pattern[str]]], list[tuple[str, str, re.Pattern[str]]]]
"""The patterns of the keys that may begin with a prefix, each with its kind, the most specific first.

The first list is for whole keys. The second is for keys that are cut off, and also has their characters.
"""


class PrefixedKeys:
    """The detector of all keys with a fixed prefix. A key begins a word, or follows the sign of its format."""

    needs: Literal["run"] = "run"
    within: Literal["word"] = "word"
    anchors: tuple[str, ...] = ()  # as of a Detector: one search finds the prefixes
    folded = False
    reach = 0

    def __init__(self, table: str = KEY_TABLE) -> None:
        self._formats = sorted(key_formats(table), key=lambda one: len(one.prefix), reverse=True)
        self._known: dict[str, PrefixPatterns] = {}
        prefixes = sorted({one.prefix for one in self._formats}, key=lambda prefix: (prefix[0], -len(prefix)))
        groups = groupby(prefixes, lambda prefix: prefix[0])
        words = [re.escape(first) + "(?:" + "|".join(re.escape(p[1:]) for p in some) + ")" for first, some in groups]
        prefix = f"(?=({'|'.join(words)}))"
        self._start = re.compile(prefix)
        self._behind = re.compile("[^A-Za-z0-9_-]" + prefix)
        self._long = re.compile(
            rf"[^A-Za-z0-9_-](?=[A-Za-z0-9$%+./@_~-]{{{LEAST}}})" + prefix
        )  # most words are shorter

    def matches(self, text: str, _folded: str) -> Iterator[tuple[str, re.Match[str]]]:
        """Yield all keys in `text`, each with its kind."""
        start = self._start.match(text) or self._next(text, 0)
        while start is not None:
            end = start.end()
            for kind, pattern in self._prefix(start[1])[0]:
                found = pattern.match(text, start.end())
                if found is not None:
                    yield kind, found
                    end = found.end()
                    break
            start = self._next(text, end)

    def _next(self, text: str, at: int) -> re.Match[str] | None:
        """Return the next prefix that begins a word at `at` or later.

        The text is searched in pieces of PIECE characters.
        """
        found = None
        while at < len(text) and (found is None or found.start() >= at):  # beyond a piece a prefix may be cut off
            found = self._long.search(text, at, at + PIECE + BEYOND)
            at += PIECE
        return found

    def anchors_in(self, text: str, _folded: str) -> int:
        """Return the number of prefixes in a text of over LARGE characters; 0 for a smaller one, without counting."""
        starts = range(0, len(text), PIECE) if len(text) > LARGE else ()
        return sum([len(self._long.findall(text, at, at + PIECE + BEYOND)) for at in starts])

    def match_open(self, text: str, _folded: str, begin: int) -> tuple[str, re.Match[str]] | None:
        """Return the unfinished key that the end of `text` cuts off. No space stands after `begin`."""
        ended: dict[str, int] = {}  # characters of a format -> where they end after the last prefix
        begin = max(begin, len(text.rstrip(CHARACTERS)))
        first = self._start.match(text, begin)
        for start in chain([first] if first is not None else [], self._behind.finditer(text, begin)):
            for kind, characters, pattern in self._prefix(start[1])[1]:
                if ended.get(characters, 0) > start.end():
                    continue  # these characters end before the text does
                found = pattern.match(text, start.end())
                if found is not None and found.end() == len(text):
                    return kind, found
                ended[characters] = found.end() if found is not None else 0
        return None

    def _prefix(self, prefix: str) -> PrefixPatterns:
        """Return the patterns of all formats whose prefix is `prefix` or begins it. They are compiled when needed."""
        if prefix not in self._known:
            patterns, opens = [], []
            for one in self._formats:
                if prefix.startswith(one.prefix):
                    behind = f"(?<=[A-Za-z0-9]{re.escape(one.sign)})" if one.sign else ""
                    begin = f"{behind}(?P<secret>{re.escape(one.prefix)}"
                    patterns.append((one.kind, re.compile(f"{begin}{one.body})")))
                    opens.append((one.kind, one.characters, re.compile(f"{begin}{one.characters}*+)")))
            self._known[prefix] = patterns, opens
        return self._known[prefix]


def key_formats(table: str = KEY_TABLE) -> Iterator[KeyFormat]:
    """Yield the formats of a table: one for each prefix of each line."""
    for line in table.strip().splitlines():
        kind, alphabet, length, *prefixes = line.split()
        name, _, digit = alphabet.partition("+")
        found = LENGTH.match(length)
        if found is None:
            raise ValueError(f"not a length: {length!r}")
        for prefix in prefixes:
            starred = prefix.startswith("*")
            yield KeyFormat(
                kind=kind,
                prefix=prefix[2:] if starred else prefix,
                sign=prefix[1] if starred else "",
                alphabet=name,
                exact=bool(found["exact"]),
                digit=bool(digit),
                lengths=(int(found["first"]), *map(int, re.findall("[0-9]+", found["rest"]))),
                separators=tuple(re.findall("[^0-9]", found["rest"])),
            )
