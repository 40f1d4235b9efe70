"""Parts: credentials whose makers put what they are told by into the middle or at the end, or into a URL."""

import base64
import binascii
import re

from machine.privacy.forms.keys import NEW_LINE
from machine.privacy.forms.rule import LEFT, Form, Rule, View
from machine.privacy.forms.shapes import is_placeholder, is_token
from machine.privacy.forms.vendors import END, real

_DISCORD = r"discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/(?P<secret>[A-Za-z0-9_-]{60,})"
_TEAMS = (
    r"webhook\.office\.com/webhookb2/(?P<secret>[0-9a-f-]{36}@[0-9a-f-]{36}/IncomingWebhook/[0-9a-f]{32}/[0-9a-f-]{36})"
)
_SLACK = r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9+/]{30,})"
_HOOKS = tuple(
    (literal, re.escape(literal), rest)
    for literal, rest in (
        ("hooks.zapier.com/hooks/", r"[a-z]{4,12}/[0-9]{4,12}/[A-Za-z0-9]{4,40}"),
        ("maker.ifttt.com/trigger/", r"(?<=/)[\w-]{1,80}/(?:json/)?with/key/[A-Za-z0-9_-]{16,60}"),
        ("chat.googleapis.com/v1/spaces/", r"[\w-]{6,40}/messages\?[^\s\"'<>`\\]{30,400}"),
        ("hook.eu1.make.com/", r"[a-z0-9]{24,40}"),
        ("hook.eu2.make.com/", r"[a-z0-9]{24,40}"),
        ("hook.us1.make.com/", r"[a-z0-9]{24,40}"),
        ("hook.us2.make.com/", r"[a-z0-9]{24,40}"),
        ("hook.integromat.com/", r"[a-z0-9]{24,40}"),
        ("/open-apis/bot/v2/hook/", r"[0-9a-f-]{36}"),
        ("/cgi-bin/webhook/send?key=", r"[0-9a-f-]{36}"),
        ("oapi.dingtalk.com/robot/send?access_token=", r"[0-9a-f]{64}"),
        ("hc-ping.com/", r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        ("webhook.site/", r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        ("api.pushover.net/", r"[A-Za-z0-9]{30}"),
        ("events.pagerduty.com/integration/", r"[0-9a-f]{32}"),
        ("alert.victorops.com/integrations/generic/", r"[0-9]{6,10}/alert/[0-9a-f-]{36}"),
    )
)
"""Addresses that whoever knows them may write to: how they begin, and the part that is to be guessed."""
_OPENAI = r"sk-(?:(?!T3BlbkFJ)[A-Za-z0-9_-]){20,220}+T3BlbkFJ[A-Za-z0-9_-]{20,220}"
_JWT = (
    r"(?:(?<![A-Za-z0-9_=-])eyJ[A-Za-z0-9_=-]++|eyJ[A-Za-z0-9_=-]{1,2000}+)\.[A-Za-z0-9_=-]++(?:\.[A-Za-z0-9_.+/=-]*+)?"
)
"""A part without an end is looked through once, however often it begins anew: no time goes by in `eyJeyJeyJ...`."""
_AZURE = (
    r"(?:(?<![A-Za-z0-9+/_-])|(?<=\\[nrt]))(?:[A-Za-z0-9]{76}(?:AZDO[A-Za-z0-9]{4}|(?:APIM|ACDb)[A-Za-z0-9]{5}[AQgw]==)"
    r"|[A-Za-z0-9_-]{44}AzFu[A-Za-z0-9_-]{5}[AQgw]==|[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{26}"
    r"|[A-Za-z0-9+/]{76}\+(?:ASt|ABa)[A-Za-z0-9+/]{5}[AQgw]==|[A-Za-z0-9]{42}AzSe[A-D][A-Za-z0-9]{5}"
    r"|[A-Za-z0-9+/]{42}\+ACR[A-D][A-Za-z0-9+/]{5}|[A-Za-z0-9]{33}AzCa[A-P][A-Za-z0-9]{5}="
    r"|[A-Za-z0-9+/]{33}(?:\+ASb|\+AEh|\+ARm|AIoT|AEG)[A-P][A-Za-z0-9+/]{5}=)"
)
"""The marks that Microsoft puts into its services' keys."""
MAILGUN = re.compile(rf"{LEFT}[0-9a-f]{{32}}-[0-9a-f]{{8}}-[0-9a-f]{{8}}(?![A-Za-z0-9-])")
NGROK = re.compile(rf"{LEFT}[12][A-Za-z0-9]{{26}}_[A-Za-z0-9]{{21,22}}(?![A-Za-z0-9_])")
_K = r"\"k\\*\":\s{0,8}\\*\"(?P<secret>[A-Za-z0-9_-]{22,700})\\*\""
_OCT = r"\"kty\\*\":\s{0,8}\\*\"oct\\*\""
_EXAMPLES = ("1234567890", "John Doe")
"""What the web tokens of documents say."""


def _inside(name: str, pattern: str, *anchors: str, view: View = "text") -> Rule:
    return Rule(name, Form(pattern), anchors, view=view, real=real)


def _is_hook(value: str) -> bool:
    return not is_placeholder(value) and any(c.isdigit() for c in value)


def _is_scrambled(value: str) -> bool:
    """Whether a token that begins as many names do has small letters, capitals and digits in no order."""
    return is_token(value) and all(re.search(kind, value) for kind in ("[a-z]", "[A-Z]", "[0-9].*[0-9]"))


def _web_token(value: str) -> bool:
    """Whether a web token is more than the example that everybody copies."""
    body = value.split(".")[1]
    try:
        claims = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode(errors="replace")
    except (binascii.Error, ValueError):
        claims = ""
    return real(value) and not all(example in claims for example in _EXAMPLES)


def parts() -> list[Rule]:
    """All rules of this module."""
    return [
        _inside("openai", _OPENAI, "T3BlbkFJ"),
        Rule("jwt", re.compile(_JWT), ("eyJ",), real=_web_token),
        _inside("azure-client-secret", rf"{LEFT}[A-Za-z0-9_~.-]{{3}}[0-9]Q~[A-Za-z0-9_~.-]{{31,34}}", "Q~"),
        _inside(
            "azure-key",
            _AZURE,
            *("AZDO", "AzFu", "JQQJ99", "APIM", "ACDb", "+ASt", "+ABa", "AzSe", "+ACR", "AzCa", "+ASb", "+AEh", "+ARm"),
            *("AIoT", "AEG"),
        ),
        _inside("azure-sas", r"(?:[?&;\"']|\\u0026)sig=(?P<secret>[A-Za-z0-9%+/_-]{40,}={0,2})", "sig=", view="lower"),
        _inside("terraform-token", rf"{LEFT}[A-Za-z0-9]{{14}}\.atlasv1\.[A-Za-z0-9_-]{{60,70}}", ".atlasv1."),
        _inside("discord-webhook", _DISCORD, "/api/webhooks/"),
        _inside("teams-webhook", _TEAMS, "/IncomingWebhook/"),
        _inside("slack-webhook", _SLACK, "/services/", "/workflows/", "/triggers/"),
        *(
            Rule("webhook", re.compile(rf"{anchor}(?P<secret>{rest})"), (literal,), leading=True, real=_is_hook)
            for literal, anchor, rest in _HOOKS
        ),
        _inside("firebase-key", rf"{LEFT}AAAA[A-Za-z0-9_-]{{7}}:APA91b[A-Za-z0-9_-]{{100,160}}", "APA91b"),
        _inside("maxmind-key", rf"{LEFT}[A-Za-z0-9]{{6}}_[A-Za-z0-9]{{29}}_mmk{END}", "_mmk"),
        _inside(
            "newrelic-key",
            rf"{LEFT}(?:[a-z]{{2}}[0-9]{{2}}xx[0-9a-fA-F]{{30}}|[0-9a-fA-F]{{36}})NRAL{END}",
            "NRAL",
        ),
        Rule(
            "vault-token",
            re.compile(r"[\"'=`]s\.(?P<secret>[A-Za-z0-9]{24})(?![A-Za-z0-9_.(])"),
            ('"s.', "'s.", "=s.", "`s."),
            leading=True,
            real=is_token,
        ),
        Rule(
            "mandrill-key",
            re.compile(rf"{LEFT}md-[A-Za-z0-9_-]{{22}}(?![A-Za-z0-9_-])"),
            ("md-",),
            leading=True,
            real=_is_scrambled,
        ),
        Rule("mailgun-key", MAILGUN, real=real),
        Rule("ngrok-token", NGROK, real=is_token),
        _inside("app-key", r"base64:(?P<secret>[A-Za-z0-9+/]{42,44}={0,2})", "base64:"),
        _inside("jwk", r"\"d\\*\":\s{0,8}\\*\"(?P<secret>[A-Za-z0-9_-]{40,})\\*\"", '"d'),
        _inside("jwk", rf"{_K}(?=[^{{}}]{{0,200}}{_OCT})", '"oct', view="lower"),
        _inside("jwk", rf"{_OCT}[^{{}}]{{0,200}}?{_K}", '"oct', view="lower"),
        Rule(
            "ssh-key",
            re.compile(rf"Private-Lines: [0-9]{{1,4}}(?:{NEW_LINE}[A-Za-z0-9+/=]{{20,64}}){{1,200}}"),
            ("private-lines: ",),
            leading=True,
            view="lower",
        ),
    ]
