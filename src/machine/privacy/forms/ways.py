"""Ways: how names are given values, in any language that has names, as patterns.

Quotes may be escaped any number of times and line ends spelt, as in JSON inside JSON inside a shell's command.
"""

import re

GAP = r"(?:\s|\\+[nrt])"
"""A space or a line's end, spelt or not."""
QUOTE = r"""(?:'\\*"'\\*"'|'\\+''|\\*["'`])"""
"""A quote, escaped as often as it may be, or as a shell has one inside single quotes."""
EQUALS = r"=|%3[dD]"
_MARKUP = r"(?:\*\*|__|(?:\x1b|\\+u001[bB]|\\+x1[bB]|\\+033)\[[0-9;]{0,12}m)?+"
"""What makes a name bold, in Markdown or on a terminal."""
_BLOCK = rf"(?:[|>][-+]?{GAP}{{1,8}}|!!\w{{1,8}}[ \t]+)?"
"""What a value of YAML has before it that begins in a line of its own."""
_TYPE = r"\??:[ \t]?[&*]?[A-Za-z_][A-Za-z_.\[\]<>|&' ,]{0,40}+=[ \t]*"
_ASSIGN = (
    rf"{_TYPE}"
    rf"|[ \t]*(?:=>|->(?=[ \t]*[\"'])|<<<"
    rf"|:=|\|\|=|\?\?=|\?=|!?={{1,3}}|:-|:(?!:)|<-|{EQUALS}){_MARKUP}[ \t]*{_MARKUP}{_BLOCK}"
)
SETTING = re.compile(rf"[ \t]*(?:{EQUALS}|:){_MARKUP}[ \t]*{_MARKUP}{_BLOCK}")
"""As files of settings give values."""
_ELSE = r"[ \t]*(?:\|\||\?\?|\?:|or(?=[ \t]))[ \t]*|\)?\.(?:unwrap_or|orElse|getOrElse|or_else)\w{0,8}\([ \t]*"
"""What gives a value where a variable has none."""
_LINE = rf"(?>{GAP}{{1,8}}(?:[0-9]+(?:\t|\\+t)|[+>|])?{GAP}{{0,8}})"
_PLAIN = rf"(?:{QUOTE}[^\"'\\\s]{{0,40}}{QUOTE}|[\w()]{{1,20}})"
_FIELD = rf"(?:{QUOTE})?[\w-]{{1,20}}(?:{QUOTE})?[ \t]{{0,8}}[:=][ \t]{{0,8}}{_PLAIN}"
_ATTRIBUTE = rf"{GAP}{{1,8}}[\w:-]{{1,20}}={_PLAIN}"
_VALUE = rf"(?:{QUOTE})?(?:[pP]arameter)?(?:[vV]alue|VALUE|default|content)(?:{QUOTE})?[ \t]*[:=][ \t]*"
_PAIR = (
    rf"(?>,{GAP}{{0,8}}{_FIELD}){{0,3}}{GAP}{{0,8}},{GAP}{{0,8}}{_VALUE}"
    rf"|(?:[ \t]*[:=])?[ \t]*\{{(?>(?:{_LINE})?{_FIELD},?){{0,4}}(?:{_LINE})?[ \t]*{_VALUE}"
    rf"|{_LINE}value:[ \t]+"
    rf"|(?>{_ATTRIBUTE}){{0,3}}{GAP}{{1,8}}value="
)
"""A name and a value that each have a name: `{"name": "API_KEY", "value": "..."}`, attributes, a block."""
_TAG = rf"(?>{_ATTRIBUTE}){{0,3}}[ \t]{{0,4}}>(?:<!\[CDATA\[)?|</(?:key|name)>{GAP}{{0,40}}<(?:string|value|data)>"
_TYPED = (
    r"(?:\\*[\"'()\]/i]){0,6}\.(?:send_?keys|type|fill\w*|set\w*|press\w*|enter\w*|replace\w*"
    r"|(?:to[ .]?)?(?:be|be_?equal|eql?|equals?|toBe|toEqual|isEqualTo)(?:_to)?)\([ \t]*"
)
"""What a test types into the field of that name, or expects it to hold."""
_SAYS = r"[ \t]+(?:is|was|reads|(?:(?:is|was|been|now) )?(?:set|changed|reset|rotated|updated) to)(?: now)?:?[ \t]+"
_WRAP = (
    r"(?:(?:new )?(?:Some|Ok|Just|PASSWORD|[sS]tr|[sS]tring|Secret\w{0,12}|SecureString|[fF]ield)"
    r"(?:(?:::|\.)(?:new|from|of))?\((?:default=)?)?"
)
_PREFIX = r"(?:[bBrRuUfFN@$]{1,2})?"
"""As strings of Python, C#, SQL and shells have."""
_SCHEME = r"(?:(?:[Bb]earer|[Tt]oken|[Bb]asic) |base64:)?+"
_GROUPS = r"(?:[a-z]{4} ){3}[a-z]{4}"
_SPACED = r"(?:[a-z0-9]{2,12} ){3,23}[a-z0-9]{2,12}"
_QUOTED = (
    rf"(?:\[{GAP}{{0,8}})?{_WRAP}{_PREFIX}(?P<quote>\"\"\"|'''|{QUOTE}){_SCHEME}"
    rf"(?P<quoted>{_SPACED}(?=(?P=quote))|(?:(?!(?<!\\)(?P=quote))[^\s\x00]){{8,1500}}+)(?P=quote)"
)
_BARE = rf"{_SCHEME}(?P<bare>{_GROUPS}(?![\w ])|[^\s\"'`\\<>\x1b]{{8,1500}}+)"
_COMMA = rf"(?:[\])]?{QUOTE}|/i?)?\)?,[ \t]*(?:with:[ ])?"
AFTER = re.compile(
    rf"(?P<tail>[\w.-]{{0,40}}+)(?P<close>{QUOTE})?+(?:\[\w{{0,8}}\]|[\])])?+{_MARKUP}"
    rf"(?:(?P<pair>{_PAIR})|(?P<else>{_ELSE})|(?P<assign>{_ASSIGN})|(?P<comma>{_COMMA})"
    rf"|(?P<tag>{_TAG})|(?P<typed>{_TYPED})|(?P<call>\([ \t]*)|(?P<says>{_SAYS})|(?P<space>[ \t]+))"
    rf"(?:{_QUOTED}|{_BARE})",
    re.ASCII,
)
"""What follows the word that says secret: the rest of the name, the way, and the value, `quoted` or `bare`."""

NARROW = re.compile(r"[^,;&|(){}\[\]]{8,}")
"""Of a value without quotes, what no mark of a language ends."""
CALL = re.compile(r"[A-Za-z_][\w.]*[(\[]|[&|]{2}")
VARIABLE = re.compile(r"[a-z]+(?:_[a-z]+)+")
QUOTED_AGAIN = re.compile(r"(\\*[\"'])(?P<value>.{8,})\1")

ENV_LINE = re.compile(
    r"(?:^|[\n\r+\t\"'`|-]|\\[nt]|(?:export|env|ENV|ARG|set|setx|-e|--env|--build-arg|:|&&|;|\||→)[ \t]+|^ +|\n +"
    r"|\b[A-Z]\w*=\S* )[A-Z0-9_]*$"
)
"""What leads to the word in a variable's line; as all below, looked for in what stands before the word."""
GIVEN = re.compile(
    r"(?:(?:^|[^\w-]|\\[nrt])(?:ENV|setx|setenv|set(?:[ \t]+-[A-Za-z]{1,6}){1,2}|(?:config|secrets?)[ \t]+set)"
    r"[ \t]+[\w./:-]*|\brequire)$"
)
"""What gives a variable the value that stands after a space."""
SETS = re.compile(
    rf"(?:env|fetch|get\w*|set\w*|put\w*|define|VALUES|add\w*|with\w*|\w*Field|\w*Variable|fill\w*|type|config|option|String)"
    rf"(?:[ \t]*\(|[ \t])[ \t]*(?:{QUOTE}\w{{1,20}}{QUOTE},[ \t]*)?(?:{QUOTE}|/)[\w./#:\[\]=\"'-]*$"
    r"|assert\w{0,20}\([\w.$>-]{0,40}$",
    re.IGNORECASE,
)
"""A function that is given a name and a value, or what to take where there is none."""
_ASKING = "get|has|is|read|find|check|validate|verify|hash|prompt|ask|lookup"
ASKS = re.compile(rf"(?:^|[^A-Za-z])(?:{_ASKING}|by|label|test|t|_)_?$|(?:{_ASKING}|By|Label|Text|Field)$")
"""What makes a function of that name one that gives, rather than takes, a value."""
DEFAULT = re.compile(r"\$\{[\w.-]*$")
SED = re.compile(r"\bs([|/#,@~!])[^\n]{1,120}?\1[\w.-]*$")
CONNECTION = re.compile(
    r"(?:server|source|host|user|uid|user ?id|database|catalog|driver|endpoint|port|address|sqlserver:[\w.:/-]{1,80})"
    r"[ \t]{0,4}[=;][^\"'\n]{0,120};[ \t]{0,4}[\w ]{0,20}$",
    re.IGNORECASE,
)
HELM = re.compile(r"--set(?:-string)?[ =]\S*$")
ENDS = re.compile(r"[ \t]{0,20}(?:$|[\r\n\\\x1b]|[ \t]#)")
"""The end of a line, or of what counts of it; the only one that is looked for after the value."""
OPENED = re.compile(r"([(\[{])[\w.-]*$")
QUERY = re.compile(r"(?:[?&]|&amp;)[\w.\[\]-]*$")
