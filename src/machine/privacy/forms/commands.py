"""Commands: secrets that are handed to a program on its command line, by an option or by their place.

A line of the table is commands, separated by commas, and what comes before the secret, of `re`, where `..` is other
arguments of the same line, `#` the secret, `+#` one after a space, `*#` one with or without, `=#` one after `=` or a
space, and `@:#` one after a user and a colon (or another mark) in the same word.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from machine.privacy.forms.assigned import QUOTE
from machine.privacy.forms.given import OPEN, VALUE, decoded, is_given
from machine.privacy.forms.rule import LEFT, Rule

_OPTIONS = r"""
sshpass                                                             ..-p*#
mysql,mysqldump,mysqladmin,mysqlimport,mysqlsh,mysqlcheck           ..(?:-p#|--password=#)
mariadb,mariadb-dump,mariadb-admin                                  ..(?:-p#|--password=#)
mongo,mongosh,mongodump,mongorestore,mongoexport,mongoimport        ..(?:-p*#|--password=#)
mycli,pgcli,cqlsh,cypher-shell,rabbitmqadmin,veracrypt,ncftpput     ..-p+#
evil-winrm,crackmapexec,netexec,nxc,bloodhound-python,racadm        ..-p+#
docker login,podman login,nerdctl login,registry login,oras login   ..(?:-p|--password)=#
az login,oc login,cf login,ibmcloud login,argocd login,helm repo    ..(?:-p|--password|--apikey)=#
sqlcmd,bcp,osql,ipmitool,mosquitto_pub,mosquitto_sub                ..-P*#
redis-cli                                                           ..(?:-a|--pass)=#
ldapsearch,ldapadd,ldapmodify,ldapdelete,ldapwhoami,ldappasswd      ..-[ws]*#
kadmin,dsconf,dsidm,generic-password,internet-password              ..-w+#
addprinc,plink,pscp,psftp,putty,kitty                               ..-pw+#
snmpget,snmpwalk,snmpset,snmpbulkwalk,snmpbulkget,snmpgetnext       ..-c*#
snmpget,snmpwalk,snmpset,snmpbulkwalk,snmpbulkget,snmptrap          ..-A*#
snmpget,snmpwalk,snmpset,snmpbulkwalk,snmpbulkget,snmptrap          ..-X*#
snmptrap,snmptable,snmpstatus,snmpinform,snmpdf                     ..-c*#
zip,unzip,zipcloak                                                  ..-P*#
7z,7za,7zz,7zr,rar,unrar                                            ..-h?p#
keytool,jarsigner,apksigner                                         ..-(?:dest|src)?storepass+#
keytool,jarsigner                                                   ..-(?:new|(?:dest|src)?key)pass+#
openssl,apksigner                                                   ..--?(?:[a-z-]{0,12})pass(?:in|out)?[ \t]+pass:#
openssl                                                             ..-(?:k|hmac)+#
ssh-keygen                                                          ..-[NP]*#
gpg,gpg2                                                            ..--passphrase=#
htpasswd                                                            (?:[ \t]+-\w{1,8}){0,3}[ \t]+-\w{0,6}b\w{0,6}[ \t]+\S{1,120}[ \t]+\S{1,60}+#
curl,wget,xh                                                        ..(?:-[uUa][ \t]?|--(?:proxy-)?user[ =])@:#
http -a,https -a                                                    [ \t]+@:#
smbclient,rpcclient,smbget,smbmap,nmblookup                         ..-U[ \t]?@%#
lftp,lftpget                                                        ..-u[ \t]?@,#
sqlplus,sqlldr,expdp,impdp,rman                                     ..@/#
secretsdump,psexec,wmiexec,smbexec,mssqlclient,atexec,getuserspns   ..@:#(?=@)
net use,net user                                                    ..(?:\\{1,8}\S{1,80}|[\w.-]{1,40})+#(?=[ \t]+/|[ \t]*(?:$|\n|\\))
net use                                                             ../u(?:ser)?:\S{1,80}+#
xfreerdp,wfreerdp,xfreerdp3,mstsc,cmdkey,winscp                     ../p(?:ass(?:word)?)?[:=]#
nmcli                                                               ..(?:password|psk)+#
iwctl                                                               ..--passphrase=#
wpa_passphrase                                                      [ \t]+(?:"[^"\n]{1,64}"|'[^'\n]{1,64}'|\S{1,64})+#
networksetup                                                        ..-setairportnetwork[ \t]+\S{1,20}[ \t]+\S{1,64}+#
rabbitmqctl                                                         ..(?:add_user|change_password|authenticate_user)[ \t]+\S{1,60}+#
mc alias set,mcli alias set,mc config host add                      (?:[ \t]+\S{1,200}){3}+#
vault login,operator unseal,rclone obscure,encrypt_string           (?:[ \t]+-\S{1,40}){0,3}+#
steamcmd                                                            ..\+login[ \t]+\S{1,60}+#
samba-tool user                                                     [ \t]+(?:create|add|setpassword)[ \t]+\S{1,60}+#
user_pw,owner_pw,input_pw                                           +#
qpdf                                                                ..--encrypt[ \t]+(?:\S{0,60}[ \t]+)?#
oathtool                                                            ..-b+#
put-parameter,put-secret-value,create-secret,update-secret          ..--(?:value|secret-string)=#
keyvault secret set                                                 ..--value=#
gh secret set                                                       ..(?:--body|-b)=#
npm config set,yarn config set,pnpm config set                      [ \t]+\S{0,100}(?:_auth|[Tt]oken|pass(?:word)?|[_-]pw|secret)=#
fly secrets set,flyctl secrets set,doppler secrets set              ..\w{1,60}=#
from-literal                                                        [ =]['"]?(?P<name>\w[\w.-]{0,60})=#
kubeadm join                                                        ..--token=#
chpasswd                                                            [^\n<]{0,40}<<<[ \t]*@:#
account import,wallet import,importprivkey,--private-key            [^\n]{0,40}?(?P<bare>[0-9a-f]{64})\b
"""  # noqa: E501 (one line a command)
_PARTED = rf"(?:[ \t]+|{QUOTE},[ \t]*(?={QUOTE}))"
_OTHERS = r"(?:\\\r?\n|(?!\\+n)[^\n|;&]){0,200}?[ \t\"',]"
_IN_A_PAIR = r"(?P<bare>[^\s\"'`\\<>|;&]{6,200})"
_BEFORE_AT = r"(?P<bare>[^\s\"'`\\<>|;&@]{6,200})"
_MARKS = {"+#": f"{_PARTED}{VALUE}", "*#": f"(?:{_PARTED})?{VALUE}", "=#": f"(?:=|{_PARTED}){VALUE}", "#": VALUE}
_MARK = re.compile(r"@(.)#|[+*=]?#")
PUBLIC = re.compile(
    r"(?:\w*[_.-])?(?:user(?:_?name)?|host(?:name)?|port|url|uri|region|zone|env|endpoint|database|db(?:_?name)?|name|e?mail|log|level)",
    re.IGNORECASE,
)
"""Names of settings that nobody hides."""


@dataclass(frozen=True)
class Given(Rule):
    """The value that stands where a secret has to, in quotes or not; none of a name that says otherwise."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The one value, however it is quoted."""
        groups = match.groupdict()
        if not PUBLIC.fullmatch(groups.get("name") or ""):
            yield from (each for name, each in groups.items() if each and name.startswith(("quoted", "bare")))


def given(name: str, pattern: str, *anchors: str, real: Callable[[str], bool] = is_given) -> Rule:
    """A rule of what stands at one of the anchors, the first words of the pattern in any case."""
    heads = "|".join(re.escape(each) + ("(?![A-Za-z0-9])" if each[-1].isalnum() else "") for each in anchors)
    return Given(
        name, re.compile(f"{LEFT}(?i:{heads}){pattern}", re.ASCII), anchors, leading=True, view="lower", real=real
    )


def _filled(pattern: str) -> str:
    """A pattern of the table with its marks written out; no group's name is given twice."""
    numbers = iter(range(9))

    def written(match: re.Match[str]) -> str:
        if match[1]:
            value = f"{OPEN}[^\\s\"'`:{match[1]}]{{1,60}}{match[1]}{_IN_A_PAIR if match[1] != '/' else _BEFORE_AT}"
        else:
            value = _MARKS[match[0]]
        number = next(numbers)
        return re.sub(r"(?<=\?P<|\?P=)(quoted|quote|bare)(?=[>)])", rf"\g<1>{number or ''}", value)

    return _MARK.sub(written, pattern.replace("..", _OTHERS, 1))


@dataclass(frozen=True)
class Piped(Rule):
    """What a command prints into another that takes a secret from it."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """All of it, or what comes after the user and a colon, or base64 of a secret."""
        value = match["quoted"] or match["bare"]
        if match["pair"]:
            value = value.partition(":")[2]
        if match["base64"]:
            text = decoded(value)
            if text is None or not is_given(text.strip()):
                return
        elif not is_given(value):
            return
        yield value


_PIPED = Piped(
    "password",
    re.compile(
        rf"{LEFT}(?:echo|printf)(?:[ \t]+-[neE]{{1,3}}|[ \t]+{OPEN}%s(?:\\+n)?{OPEN})?[ \t]+{VALUE}[ \t]*\|[ \t]*"
        r"(?:sudo[ \t]+(?!-S))?(?:(?P<pair>chpasswd)|(?P<base64>base64[ \t]+(?:-d|-D|--decode))|sudo[ \t]+-S|kinit"
        r"|cryptsetup|smbpasswd|(?:passwd|docker|podman|helm|nerdctl|oras|skopeo|gpg2?|gh|wrangler|vercel|flyctl|fly"
        r"|az|pass|secret-tool|vault|openssl|step|ansible-vault|tee)\b[^\n|]{0,160}?"
        r"(?:-stdin|passphrase-fd|--with-token|secret put|secrets? set|env add|insert|store|login -|-pass(?:in)? stdin"
        r"|[./_-](?:vault_pass|password|passwd|secret|token)))",
        re.ASCII,
    ),
    ("echo", "printf"),
    leading=True,
    view="lower",
)


def commands() -> list[Rule]:
    """All rules of this module."""
    found = list[Rule]()
    for line in _OPTIONS.strip().splitlines():
        heads, pattern = re.split(r"[ \t]{2,}", line, maxsplit=1)
        found.append(given("password", r"(?:\.exe|\.py)?" + _filled(pattern), *heads.split(",")))
    return [*found, _PIPED]
