"""Ways: how names are given values, in any language that has names, as patterns.

Quotes may be escaped any number of times and line ends spelt, as in JSON inside JSON inside a shell's command.
"""

import re

from machine.privacy.forms.rule import LINE_END

GAP = r"(?:\s|\\+[nrt])"
"""A space or a line's end, spelt or not."""
QUOTE = r"""(?:'\\*"'\\*"'|'\\+''|\\*["'`])"""
"""A quote, escaped as often as it may be, or as a shell has one inside single quotes."""
EQUALS = r"=|%3[dD]"
_MARKUP = r"(?:\*\*|__|(?:\x1b|\\+u001[bB]|\\+x1[bB]|\\+033)\[[0-9;]{0,12}m)?+"
"""What makes a name bold, in Markdown or on a terminal."""
_BLOCK = rf"(?:[|>][-+]?{GAP}{{1,8}}|!!\w{{1,8}}[ \t]+|&[A-Za-z_]\w{{0,30}}[ \t]+)?"
"""What a value of YAML has before it: that it begins in a line of its own, its type, a name to call it by."""
_TYPE = r"[?!]?:[ \t]?[&*]?[A-Za-z_][A-Za-z_.\[\]<>|&' ,]{0,40}+=[ \t]*"
_ASSIGN = (
    rf"{_TYPE}"
    rf"|[ \t]*(?:=>|->(?=[ \t]*[\"'])|<<<"
    rf"|\{{(?={QUOTE})|:=|\|\|=|\?\?=|\?=|!?={{1,3}}|:-|:(?!:)|<-|{EQUALS}){_MARKUP}[ \t]*{_MARKUP}{_BLOCK}"
)
SETTING = re.compile(rf"[ \t]*(?:{EQUALS}|:){_MARKUP}[ \t]*{_MARKUP}{_BLOCK}")
"""As files of settings give values."""
_ELSE = r"[ \t]*(?:\|\||\?\?|\?:|or(?=[ \t]))[ \t]*|\)?\.(?:unwrap_or|orElse|getOrElse|or_else)\w{0,8}\([ \t]*"
"""What gives a value where a variable has none."""
_COLOUR = r"(?:(?:\x1b|\\+u001[bB])\[[0-9;]{0,12}m)?+"
_MARGIN = rf"{_COLOUR}(?:[0-9]+(?:\t|\\+t)|[+>|│])?{_COLOUR}"
"""What stands before each line of a file that is shown: its number, a mark of change, a quotation's or a frame's."""
_LINE = rf"(?>{GAP}{{1,8}}{_MARGIN}{GAP}{{0,40}})"
_PLAIN = rf"(?:{QUOTE}[^\"'\\\s]{{0,40}}{QUOTE}|[\w()]{{1,20}})"
_FIELD = rf"(?:{QUOTE})?[\w-]{{1,20}}(?:{QUOTE})?[ \t]{{0,8}}[:=][ \t]{{0,8}}{_PLAIN}"
_ATTRIBUTE = rf"{GAP}{{1,8}}[\w:-]{{1,20}}={_PLAIN}"
_VALUE = rf"(?:{QUOTE})?(?:[pP]arameter)?(?:[vV]alue|VALUE|default|content)(?:{QUOTE})?[ \t]*[:=][ \t]*"
_REST = r"(?:(?!\\+[rn])[^\r\n]){1,80}"
_ROWS = (
    rf"[ \t]*[|│]?(?>{_LINE}[|│]?[ \t]*[\w-]{{1,20}}[ \t]*[:=|│]{_REST}){{0,3}}"
    rf"{_LINE}[|│]?[ \t]*(?:[vV]alue|VALUE)[ \t]*[:=|│][ \t]*"
)
"""A name and a value in lines of their own, each behind what it is: `name = api_key`, `value = ...`."""
_PAIR = (
    rf"(?>,{GAP}{{0,40}}{_FIELD}){{0,3}}{GAP}{{0,8}},{GAP}{{0,40}}{_VALUE}"
    rf"|(?:[ \t]*[:=])?[ \t]*\{{(?>(?:{_LINE})?{_FIELD},?){{0,4}}(?:{_LINE})?[ \t]*{_VALUE}"
    rf"|{_LINE}value:[ \t]+"
    rf"|:(?>{_LINE}[A-Z]\w{{1,30}}:[^\n\\]{{1,80}}){{0,4}}{_LINE}Default:[ \t]+"
    rf"|{_LINE}[0-9]{{1,3}}\)[ \t]+"
    rf"|(?P<rows>{_ROWS})"
    rf"|(?P<part>(?:{LINE_END}Content-{_REST})?{LINE_END}{LINE_END})"
    rf"|[ \t]?=>{GAP}{{1,40}}string\([0-9]{{1,4}}\)[ \t]"
    rf"|;s:[0-9]{{1,4}}:"
    r"|[ \t]+(?:-Value|REG_(?:EXPAND_)?SZ)[ \t]+"
    rf"|[ \t]*:[ \t]*\{{{GAP}{{0,16}}{QUOTE}(?:S|stringValue|string|text|plaintext|plain|#text|_text){QUOTE}"
    r"[ \t]*:[ \t]*"
    rf"|(?>{_ATTRIBUTE}){{0,3}}{GAP}{{1,8}}value="
)
"""A name and a value that each have a name: `{"name": "API_KEY", "value": "..."}`, attributes, a block."""
_TAG = (
    rf"(?>{_ATTRIBUTE}){{0,3}}[ \t]{{0,4}}>(?:<!\[CDATA\[|(?:{_LINE})?<[vV]alue>)?"
    rf"|</(?:key|name)>(?:{_LINE})?<(?:string|value|data)>(?:<string>)?"
)
_TYPED = (
    r"(?:\\*[\"'()\]/i]){0,6}\.(?:send_?keys|type|fill\w*|set\w*|press\w*|enter\w*|replace\w*"
    r"|(?:to[ .]?)?(?:be|be_?equal|eql?|equals?|toBe|toEqual|isEqualTo)(?:_to)?)\([ \t]*"
)
"""What a test types into the field of that name, or expects it to hold."""
_SAYS = r"[ \t]+(?:is|was|reads|(?:(?:is|was|been|now) )?(?:set|changed|reset|rotated|updated) to)(?: now)?:?[ \t]+"
_WRAP = (
    r"(?:(?:(?:new )?(?:\w{1,20}(?:::|\.)){0,3}"
    r"(?:Some|Ok|Just|PASSWORD|[sS]tr|[sS]tring|Secret\w{0,12}|SecureString|[fF]ield"
    r"|b?crypt|(?i:md5|sha[0-9]{1,3})|make(?:_password)?|encrypt(?:String)?|(?:generate_)?(?:password_)?hash(?:Sync|_password|pw)?)"
    r"(?:(?:::|\.)(?:new|from|of))?\((?:default=)?){0,2}"
    rf"(?:[\w.:]{{0,20}}(?:getenv|environ\.get|env)\({QUOTE}\w{{1,60}}{QUOTE},[ \t]*)?)"
)
"""What makes a secret of a text: a type, a function that hashes or encrypts it, one that takes it for lack of another.
"""
_PREFIX = r"(?:[bBrRuUfFN@$]{1,2}|<<)?"
"""As strings of Python, C#, SQL, shells and Erlang have."""
_SCHEME = r"(?:(?:[Bb]earer|[Tt]oken|[Bb]asic) |base64:)?+"
_GROUPS = r"(?:[a-z]{4} ){3}[a-z]{4}"
_SPACED = r"(?:[a-z0-9]{2,12} ){3,23}[a-z0-9]{2,12}"
_QUOTED = (
    rf"(?:\[{GAP}{{0,8}})?{_WRAP}{_PREFIX}(?P<quote>\"\"\"|'''|{QUOTE}){_SCHEME}"
    rf"(?P<quoted>{_SPACED}(?=(?P=quote))|(?:(?!(?<!\\)(?P=quote))[^\s\x00]){{8,1500}}+)(?P=quote)"
)
_BARE = rf"{_SCHEME}(?P<bare>{_GROUPS}(?![\w ])|[^\s\"'`\\<>\x1b]{{8,1500}}+)"
_SEEN = rf":(?:(?:{QUOTE})?[\w\\]{{1,60}}(?:{QUOTE})?:)?(?:protected|private)"
"""Who sees a property of an object that PHP prints."""
_COMMA = rf"(?:[\])]?{QUOTE}|/i?)?\)?,[ \t]*(?:with:[ ])?"
AFTER = (
    rf"(?P<tail>[\w.-]{{0,40}}+)(?P<close>{QUOTE})?+(?:\[\w{{0,8}}\]|(?:{_SEEN})?[\])])?+{_MARKUP}"
    rf"(?:(?P<pair>{_PAIR})|(?P<else>{_ELSE})|(?P<assign>{_ASSIGN})|(?P<comma>{_COMMA})"
    rf"|(?P<tag>{_TAG})|(?P<typed>{_TYPED})|(?P<call>\([ \t]*)|(?P<says>{_SAYS})|(?P<space>[ \t]+))"
    rf"(?:{_QUOTED}|{_BARE})"
)
"""What follows the word that says secret: the rest of the name, the way, and the value, `quoted` or `bare`."""

NARROW = re.compile(r"[^,;&|(){}\[\]]{8,}")
"""Of a value without quotes, what no mark of a language ends."""
JOINED = re.compile(r"[^\s,;&|(){}\[\]=]{1,40}&[^\s,;&|(){}\[\]=]{1,40}")
"""A value with one such mark in it, as people choose them: `anna&bert2014`."""
CALL = re.compile(r"[A-Za-z_][\w.]*[(\[]|[&|]{2}")
NAMED = re.compile(
    rf"(?:name|key|parameter|setting|variable|option|title|label|id)(?:{QUOTE})?"
    rf"[ \t]*[:=|│][ \t]*(?:{QUOTE})?[\w./-]*$",
    re.IGNORECASE,
)
"""What leads to a name that is itself the value of a field."""
PART = re.compile(rf"name={QUOTE}[\w.\[-]*$")
"""What leads to the name of a field in a form that is sent in parts."""
TUPLE = re.compile(rf"\{{[ \t]*:?\w*$|(?:^|[\s,\[({{=])[(\[]{QUOTE}[\w.-]*$")
"""What leads to a name that is the first of two: in Erlang, or in a list of pairs."""
OF_PAIRS = re.compile(rf"(?:[\[{{,][ \t]{{0,4}}\(|\{{[ \t]{{0,4}}){QUOTE}[\w.-]*$")
"""What leads to one where all that follow are pairs too."""
OPTION = re.compile(rf"{QUOTE}--?[\w-]*$")
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
    r"(?:env|fetch|get\w*|set\w*|put\w*|define|VALUES|add\w*|with\w*|\w*Field|\w*Variable|fill\w*|type|config"
    r"|option|String|\w*Value|entry|\w*Pair(?:<[\w, ]{1,40}>)?)"
    rf"(?:[ \t]*\(|[ \t])[ \t]*(?:{QUOTE}\w{{1,20}}{QUOTE},[ \t]*)?(?:{QUOTE}|/)[\w./#:\[\]=\"'-]*$"
    r"|(?:assert\w{0,20}|(?:str|wcs)[nl]?cpy(?:_s)?|memcpy)\([\w.$>-]{0,40}$"
    r"|Map\.of\([^()\n]{1,40}$",
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
MOUNT = re.compile(r"(?:^|[\s\"'=])(?:[\w.-]{1,20}(?:=[^\s,()\"'=]{0,60})?,){1,8}\w*$")
"""What leads to the word in the options of what is mounted: `user=a,pass=b,uid=1`."""
HELM = re.compile(r"--set(?:-string)?[ =]\S*$")
ENDS = re.compile(r"[ \t]{0,20}(?:$|[\r\n\\\x1b]|[ \t]#)")
"""The end of a line, or of what counts of it; the only one that is looked for after the value."""
OPENED = re.compile(r"([(\[{])[\w.-]*$")
QUERY = re.compile(r"(?:[?&]|&amp;)[\w.\[\]-]*$")
