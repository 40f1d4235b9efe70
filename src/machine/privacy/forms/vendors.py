"""Vendors: credentials that their makers gave a form of their own, told by how they begin.

Each line is a rule's name, how its tokens begin, and what follows (of `re`). What may stand before and after a token
is the same for all: no letter or digit. Forms are as their makers describe them, or as secret scanners publish them.
`parts` has what is told by its middle or end.
"""

import re

from machine.privacy.forms.rule import LEFT, Form, Rule
from machine.privacy.forms.shapes import LOOKED_AT, is_sample, word_length

_FORMS = """
github-token         github_pat_  [A-Za-z0-9]{22}_[A-Za-z0-9]{59}
github-token         ghp_ gho_ ghu_ ghs_ ghr_  [A-Za-z0-9]{36,255}
gitlab-token         glpat- gldt- glft- glsoat- glrt- glrtr-  [A-Za-z0-9_-]{20,}(?:\\.[A-Za-z0-9_-]+)*
gitlab-token         glcbt- glimt- glptt- glagent- gloas- glwt- glffct-  [A-Za-z0-9_-]{20,}(?:\\.[A-Za-z0-9_-]+)*
gitlab-token         _gitlab_session=  [0-9a-f]{32}
gitlab-token         GR1348941  [A-Za-z0-9_-]{20,50}
bitbucket-token      ATBB  [A-Za-z0-9]{28,40}
bitbucket-token      BBDC-  [A-Za-z0-9+/]{40,48}
atlassian-token      ATATT3 ATCTT3  [A-Za-z0-9_-]{60,}(?:=[A-Za-z0-9_-]+)?
slack-token          xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xoxo- xoxc- xoxd-  [A-Za-z0-9-]{20,}[A-Za-z0-9%-]*
slack-token          xapp-  [0-9]-[A-Z0-9]{6,}-[0-9]{6,}-[a-z0-9]{20,}
google-api-key       AIza  [A-Za-z0-9_-]{35}
google-oauth         GOCSPX-  [A-Za-z0-9_-]{28}
google-oauth         ya29.  [A-Za-z0-9_-]{30,}[A-Za-z0-9_.-]*
google-oauth         1//0  [A-Za-z0-9_-]{30,}[A-Za-z0-9_.-]*
aws                  A3T ABIA ACCA AKIA ASIA  (?:(?<=A3T)[A-Z0-9]|(?<!A3T))[0-9A-Z]{16}
aws-session-token    IQoJb3JpZ2lu FwoGZXIvYXdzE FQoGZXIvYXdzE  [A-Za-z0-9+/]{80,}[A-Za-z0-9+/=%]*
aws-api-key          ABSK  [A-Za-z0-9+/]{80,}={0,2}
npm-token            npm_  [A-Za-z0-9]{36}
rubygems-token       rubygems_  [a-f0-9]{48}
crates-io-token      cio  [A-Za-z0-9]{32}
docker-token         dckr_pat_ dckr_oat_  [A-Za-z0-9_-]{27,32}
nuget-api-key        oy2  [a-z0-9]{43}
heroku-token         HRKU-  [A-Za-z0-9_-]{36,64}
digitalocean-token   dop_v1_ doo_v1_ dor_v1_  [a-f0-9]{64}
fly-token            fm1r_ fm1a_ fm2_ fo1_  [A-Za-z0-9+/_-]{40,}=*
netlify-token        nfp_ nfc_ nfo_ nfu_  [A-Za-z0-9]{36,}
newrelic-key         NRAK- NRJS- NRII- NRAA- NRRA- NRIQ-  [A-Za-z0-9_-]{19,32}
grafana-token        glsa_  [A-Za-z0-9]{32}_[a-fA-F0-9]{8}
grafana-token        glc_  [A-Za-z0-9+/]{32,}={0,2}
grafana-token        eyJrIjoi  [A-Za-z0-9+/]{60,}={0,2}
sentry-token         sntrys_  [A-Za-z0-9+/]{40,}={0,2}_[A-Za-z0-9+/]{40,}={0,2}
sentry-token         sntryu_  [a-f0-9]{64}
honeycomb-key        hcaik_ hcalk_ hcamk_ hcxik_  [A-Za-z0-9_-]{30,64}
dynatrace-token      dt0c01. dt0s01. dt0s02. dt0s16.  [A-Z0-9-]{8,24}\\.[A-Z0-9]{64}
databricks-token     dapi  [a-f0-9]{32}(?:-[0-9])?
openai-key           sk-proj- sk-svcacct- sk-admin- sk-None-  [A-Za-z0-9_-]{20,}
anthropic-key        sk-ant-  [A-Za-z0-9_-]{24,}
openrouter-key       sk-or-v1- sk-or-  [a-f0-9]{64}
langchain-key        lsv2_pt_ lsv2_sk_ ls__  [a-f0-9]{32}(?:_[a-f0-9]{10})?
langfuse-key         sk-lf- pk-lf-  [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
api-key              sk- sk_  (?:[A-Za-z0-9]{1,12}[-_]){0,2}[A-Za-z0-9]{20,}
huggingface-token    hf_ api_org_  [A-Za-z0-9]{34,}
replicate-token      r8_  [A-Za-z0-9]{37}
groq-key             gsk_  [A-Za-z0-9]{48,56}
perplexity-key       pplx-  [A-Za-z0-9]{40,56}
xai-key              xai-  [A-Za-z0-9]{60,90}
fireworks-key        fw_  [A-Za-z0-9]{22,32}
cerebras-key         csk-  [a-z0-9]{40,56}
nvidia-key           nvapi-  [A-Za-z0-9_-]{60,70}
tavily-key           tvly-  (?:dev-|prod-)?[A-Za-z0-9]{28,36}
voyage-key           pa-  [A-Za-z0-9_-]{40,50}
pinecone-key         pcsk_  [A-Za-z0-9_]{50,80}
wandb-key            wandb_v1_  [A-Za-z0-9_]{60,90}
tinker-key           tml-  [A-Za-z0-9_-]{24,}
notion-token         ntn_  [A-Za-z0-9]{40,50}
notion-token         secret_  [A-Za-z0-9]{43}
linear-key           lin_api_ lin_oauth_  [A-Za-z0-9]{32,64}
figma-token          figd_ figo_ figor_ figu_  [A-Za-z0-9_-]{36,60}
airtable-token       pat  [A-Za-z0-9]{14}\\.[a-f0-9]{64}
dropbox-token        sl.  (?:u\\.)?[A-Za-z0-9_-]{80,}
shopify-token        shpat_ shpca_ shppa_ shpss_ shptka_  [a-fA-F0-9]{32}
shopify-token        prtapi_ atkn_  [A-Za-z0-9]{32,}
square-token         sq0atp- sq0csp- sq0idp-  [A-Za-z0-9_-]{22,43}
square-token         EAAA  [A-Za-z0-9_-]{60}
stripe-key           sk_live_ sk_test_ rk_live_ rk_test_ sk_org_live_ sk_org_test_  [A-Za-z0-9]{16,247}
stripe-key           whsec_  [A-Za-z0-9+/]{32,64}={0,2}
payment-token        access_token$  (?:production|sandbox)\\$[0-9a-z]{16}\\$[0-9a-f]{32}
plaid-token          access-sandbox-  [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
plaid-token          access-development- access-production-  [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
flutterwave-key      FLWSECK_TEST- FLWSECK-  [A-Za-z0-9]{12,32}(?:-X)?
razorpay-key         rzp_live_ rzp_test_  [A-Za-z0-9]{14,}
mailgun-key          key- pubkey-  [a-f0-9]{32}
mailgun-key          -private-  [a-f0-9]{32}
sendinblue-key       xkeysib- xsmtpsib-  [a-f0-9]{64}-[A-Za-z0-9]{16}
postmark-key         PMAK-  [a-f0-9]{24}-[a-f0-9]{34}
resend-key           re_  [A-Za-z0-9]{8,}_[A-Za-z0-9]{20,32}
mapbox-token         sk.eyJ tk.eyJ  [A-Za-z0-9_-]{40,}\\.[A-Za-z0-9_-]{20,}
1password-token      ops_eyJ  [A-Za-z0-9+/_-]{80,}={0,2}
1password-key        A3-  [A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}
vault-token          hvs. hvb. hvr.  [A-Za-z0-9_-]{20,}
pulumi-token         pul-  [a-f0-9]{40}
doppler-token        dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.  (?:[a-z0-9_-]{2,35}\\.)?[A-Za-z0-9]{40,44}
infracost-key        ico-  [A-Za-z0-9]{32}
prefect-key          pnu_ pnb_  [A-Za-z0-9]{36}
postman-key          PMAK-  [A-Za-z0-9-]{40,64}
planetscale-token    pscale_tkn_ pscale_pw_ pscale_oauth_  [A-Za-z0-9_-]{32,64}
supabase-key         sbp_ sb_secret_  [A-Za-z0-9_-]{30,50}
vercel-token         vcp_ vci_ vca_ vcr_ vck_ vercel_blob_rw_  [A-Za-z0-9_]{24,64}
render-key           rnd_  [A-Za-z0-9]{24,40}
railway-token        railway_  [A-Za-z0-9_-]{30,}
buildkite-token      bkua_ bkct_ bkaj_  [a-f0-9]{40}
circleci-token       CCIPAT_ CCIPRJ_  [A-Za-z0-9]{22}_[a-f0-9]{40}
sonar-token          sqp_ squ_ sqa_  [a-f0-9]{40}
snyk-token           snyk_uat.  [A-Za-z0-9_-]{30,}[A-Za-z0-9_.-]*
launchdarkly-key     sdk- mob- api-  [0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}
posthog-key          phx_ phs_  [A-Za-z0-9_]{40,56}
contentful-token     CFPAT-  [A-Za-z0-9_-]{43}
hubspot-token        pat-na1- pat-eu1- pat-na2-  [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
readme-key           rdme_  [a-z0-9]{70}
typeform-token       tfp_  [A-Za-z0-9_-]{20,}[A-Za-z0-9_.-]*
asana-token          2/  [0-9]{15,17}/[0-9]{15,17}:[a-f0-9]{32}
duffel-token         duffel_live_ duffel_test_  [A-Za-z0-9_-]{43}
easypost-key         EZAK EZTK  [A-Za-z0-9]{54}
shippo-token         shippo_live_ shippo_test_  [a-f0-9]{40}
tailscale-key        tskey-  (?:auth|api|client|scim|webhook)-[A-Za-z0-9]{8,24}-[A-Za-z0-9]{20,40}
cloudflare-token     v1.0-  [a-f0-9]{24}-[a-f0-9]{100,160}
cloudflare-token     cfut_ cfat_ cfk_  [A-Za-z0-9_-]{36,64}
alibaba-key          LTAI  [A-Za-z0-9]{16,24}
tencent-key          AKID  [A-Za-z0-9]{32}
yandex-key           AQVN y0_Ag  [A-Za-z0-9_-]{35,}[A-Za-z0-9_.=-]*
yandex-key           t1.  [A-Za-z0-9_-]{35,}[A-Za-z0-9_.=-]*
scaleway-key         SCW  [A-Z0-9]{17}
facebook-token       EAA  (?=[A-Za-z0-9]*Z[A-D])[A-Za-z0-9]{80,}
instagram-token      IGQV  [A-Za-z0-9_-]{80,}
zapier-key           ZAP-  [A-Za-z0-9]{32,}
adobe-secret         p8e-  [A-Za-z0-9]{32}
adafruit-key         aio_  [A-Za-z0-9]{28}
frameio-token        fio-u-  [A-Za-z0-9_-]{64}
lob-key              live_ test_  [a-f0-9]{35}
openshift-token      sha256~  [A-Za-z0-9_-]{43}
artifactory-token    cmVmdGtu  [A-Za-z0-9]{56}
artifactory-key      AKCp  [A-Za-z0-9]{60,80}
age-key              AGE-SECRET-KEY-1 AGE-SECRET-KEY-PQ-1  [A-Z0-9]{58,}
github-token         v1.  [0-9a-f]{40}
google-api-key       AQ.Ab  [A-Za-z0-9_-]{30,}
cloudflare-token     eyJhIjoi  [A-Za-z0-9+/]{100,}={0,2}
docker-config        eyJhdXRocy ewogICJhdXRocy ewoJImF1dGhzIj ewogICAgImF1dGhzIj  [A-Za-z0-9+/]{20,}={0,2}
docker-swarm-token   SWMTKN-1-  [a-z0-9]{40,60}-[a-z0-9]{20,30}
rancher-token        K10  [0-9a-f]{64}::(?:server:|node:)?[A-Za-z0-9.]{16,64}
portainer-key        ptr_  [A-Za-z0-9+/_-]{40,48}=?
matrix-token         syt_  [A-Za-z0-9+/_-]{1,80}_[A-Za-z0-9]{20}_[A-Za-z0-9]{6}
matrix-token         mct_ mat_ mcr_  [A-Za-z0-9]{20,40}_[A-Za-z0-9]{6}
configcat-key        configcat-sdk-1/ configcat-proxy/  [A-Za-z0-9_-]{22}/[A-Za-z0-9_-]{22}
wallet-key           xprv yprv zprv tprv uprv vprv Yprv Zprv  [1-9A-HJ-NP-Za-km-z]{96,112}
wallet-key           nsec1 suiprivkey1 ed25519_sk1 ed25519e_sk1 root_xsk1 acct_xsk1 addr_xsk1  [a-z0-9]{50,170}
wallet-key           edsk  [1-9A-HJ-NP-Za-km-z]{50,94}
wallet-key           302e020100300506032b657004220420  [0-9a-f]{64}
wallet-key           0201036c6e64  [0-9a-f]{120,}
minisign-key         RWRTY0Iy  [A-Za-z0-9+/]{100,}={0,2}
twitter-token        AAAAAAAAAAAAAAAAAAAAA  [A-Za-z0-9]{8,60}(?:%(?:25)?[0-9A-F]{2}[A-Za-z0-9]{1,80}){1,4}
linkedin-secret      WPL_AP0. WPL_AP1.  [A-Za-z0-9.]{10,40}[A-Za-z0-9+/.=]{6,20}
intercom-token       dG9rO  [A-Za-z0-9+/]{54,56}={0,2}
mollie-key           live_  [A-Za-z0-9]{30,40}
neon-key             napi_  [a-z0-9]{48,72}
sourcegraph-token    sgp_ slk_ sgd_ sgamp_user_  (?:(?:[0-9a-f]{16}|local)_)?[A-Za-z0-9_]{40,64}
infisical-token      st.  [0-9a-f-]{24,36}\\.[0-9a-f]{32}\\.[0-9a-f]{32}
together-key         tgp_v1_  [A-Za-z0-9_-]{43}
jina-key             jina_  [A-Za-z0-9]{50,70}
firecrawl-key        fc-  [a-f0-9]{32}
anyscale-key         esecret_  [A-Za-z0-9]{25,60}
runpod-key           rpa_  [A-Z0-9]{38,50}[a-z0-9]{0,8}
modal-token          ak- as- wk- ws-  [A-Za-z0-9]{22}
sandbox-key          e2b_ dtn_  [a-f0-9]{40,64}
browserbase-key      bb_live_ bb_test_  [A-Za-z0-9_-]{25,40}
context7-key         ctx7sk-  [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
cursor-key           key_ crsr_  [0-9a-f]{64}
apify-token          apify_api_ apify_proxy_  [A-Za-z0-9]{30,50}
modelscope-token     ms-  [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
baidu-key            bce-v3/ALTAK-  [A-Za-z0-9]{15,30}/[a-f0-9]{40}
inngest-key          signkey-prod- signkey-test- signkey-branch- signkey-staging-  [a-f0-9]{32,64}
trigger-key          tr_prod_ tr_dev_ tr_stg_ tr_pat_  [A-Za-z0-9]{20,50}
xata-key             xau_  [A-Za-z0-9]{40,60}
cockroach-key        CCDB1_  [A-Za-z0-9]{22}_[A-Za-z0-9]{40}
mongodb-key          mdb_sa_sk_  [A-Za-z0-9_-]{40}
confluent-key        cflt  [A-Za-z0-9+/]{56,64}
aiven-token          AVNS_  [A-Za-z0-9_-]{16,40}
stytch-secret        secret-live- secret-test-  [A-Za-z0-9_-]{30,40}=?
axiom-token          xaat- xapt-  [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
flagsmith-key        ser.  [A-Za-z0-9]{20,30}
woocommerce-key      ck_ cs_  [0-9a-f]{40}
paddle-key           pdl_live_apikey_ pdl_sdbx_apikey_ pdl_ntfset_  [a-z0-9]{20,30}_[A-Za-z0-9+/]{20,40}(?:_[A-Za-z0-9]{3})?
polar-token          polar_oat_ polar_pat_ polar_at_ polar_rt_ polar_whs_  [A-Za-z0-9_]{30,60}
telnyx-key           KEY01  [0-9A-F]{30}_[A-Za-z0-9]{22}
mailersend-key       mlsn.  [a-f0-9]{64}
klaviyo-key          pk_  [a-f0-9]{34}
clickup-token        pk_  [0-9]{5,10}_[A-Z0-9]{32}
trello-token         ATTA  [a-f0-9]{60,80}
cal-key              cal_live_ cal_  [a-f0-9]{32}
dbt-token            dbtc_ dbtu_  [A-Za-z0-9_=-]{36,60}
databricks-token     dose dkea  [a-f0-9]{32}
scalingo-token       tk-us-  [A-Za-z0-9_-]{48}
upcloud-token        ucat_  [A-Z0-9]{26}
backblaze-key        K001 K002 K003 K004 K005  [A-Za-z0-9/+]{27}
imagekit-key         private_  (?=[A-Za-z+/]{0,27}[0-9])[A-Za-z0-9+/]{27,28}=
pubnub-key           sec-c-  [A-Za-z0-9+/]{40,60}={0,2}
onesignal-key        os_v2_app_ os_v2_org_  [a-z0-9]{80,120}
gitpod-token         gitpod_pat_  [A-Za-z0-9_-]{20,}[A-Za-z0-9_.-]*
jetbrains-token      perm-  [A-Za-z0-9+/=]{6,}\\.[A-Za-z0-9+/=]{6,}\\.[A-Za-z0-9]{30}
deno-token           ddp_ ddo_  [A-Za-z0-9]{36}
wakatime-key         waka_  [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
netbird-token        nbp_  [A-Za-z0-9]{36}
riot-key             RGAPI-  [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
roblox-cookie        _|WARNING:-DO-NOT-SHARE-THIS.  [^|\\n]{20,200}\\|_[A-F0-9]{100,}
pinterest-token      pina_  [A-Za-z0-9]{40,}
twitch-token         oauth:  [a-z0-9]{30}
coingecko-key        CG-  [A-Za-z0-9]{24}
paloalto-key         LUFRPT  [A-Za-z0-9+/]{60,}={0,2}
discord-token        mfa.  [A-Za-z0-9_-]{80,}
castai-token         castai_v1_  [A-Za-z0-9_-]{40,}
clojars-token        CLOJARS_  [a-z0-9]{60}
harness-token        pat. sat.  [A-Za-z0-9_-]{22}\\.[0-9a-f]{24}\\.[A-Za-z0-9]{20}
plaid-token          link-sandbox- link-production-  [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
settlemint-token     sm_aat_ sm_pat_ sm_sat_  [A-Za-z0-9]{16}
definednet-key       dnkey-  [A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{52}
telegram-token       bot  [0-9]{8,10}:[A-Za-z0-9_-]{35}
"""  # noqa: E501 (one line a form)
END = r"(?![A-Za-z0-9])"


def real(token: str) -> bool:
    """Whether a token of a fixed form is more than the form: no placeholder, and not of words."""
    token = token[:LOOKED_AT]
    return not is_sample(token) and (any(c.isdigit() for c in token) or token.isupper() or word_length(token) < 5)


def vendors() -> list[Rule]:
    """All rules of this module."""
    found = list[Rule]()
    for line in _FORMS.strip().splitlines():
        name, *beginnings, rest = line.split()
        heads = "|".join(re.escape(each) for each in beginnings)
        pattern = Form(f"{LEFT}(?:{heads}){rest}{END}")
        found.append(Rule(name, pattern, tuple(beginnings), leading=True, real=real))
    return found
