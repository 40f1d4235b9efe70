"""Commands: secrets that are handed to a program on its command line, by an option or by their place.

A line of the table is commands, separated by commas, and what comes before the secret, of `re`, where `..` is other
arguments of the same line, `#` the secret, `+#` one after a space, `*#` one with or without, `=#` one after `=` or a
space, and `@:#` one after a user and a colon (or another mark) in the same word.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from machine.privacy.forms.assigned import QUOTE
from machine.privacy.forms.given import IN_QUOTES, OPEN, VALUE, decoded, is_given, is_given_password
from machine.privacy.forms.rule import LEFT, Form, Rule
from machine.privacy.forms.shapes import is_token

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
openssl                                                             ..-(?:[kK]|hmac|macopt[ \t]+(?:hex)?key:)*#
signtool                                                            ../p+#
osslsigncode                                                        ..-(?:pass|pkcs12pass)+#
codecov.io/bash,codecov                                             ..(?:-t|--token)=#
snyk auth,wandb login,fly auth token,sentry-cli login,surge token   (?:[ \t]+--?\S{1,60}){0,3}+#
ssh-keygen                                                          ..-[NP]*#
gpg,gpg2                                                            ..--passphrase=#
htpasswd                                                            (?=[^\n]{0,40}[ \t]-\w{0,6}b)(?:[ \t]+-\w{1,8}){1,4}(?:[ \t]+[^\s-]\S{0,120}){1,2}+#
curl,wget,xh                                                        ..(?:-[uUa][ \t]?|--(?:proxy-)?user[ =])@:#
http -a,https -a                                                    [ \t]+@:#
smbclient,rpcclient,smbget,smbmap,nmblookup                         ..-U[ \t]?@%#
lftp,lftpget                                                        ..-u[ \t]?@,#
sqlplus,sqlldr,expdp,impdp,rman                                     ..@/#
secretsdump,psexec,wmiexec,smbexec,mssqlclient,atexec,getuserspns   ..@:#(?=@)
net use,net user                                                    ..(?:\\{1,8}\S{1,80}|[\w.-]{1,40})+#(?=[ \t]+/|[ \t]*(?:$|\n|\\))
net use                                                             [ \t][^\n|;&]{0,200}?/u(?:ser)?:\S{1,80}+#
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
psexec,hydra,medusa,ncftpget,twine,airflow                          ..-p+#
poetry publish,az sql,az postgres,az mysql,az redis,nuget add,nuget sources  ..(?:-p|--password|-Password)=#
schtasks                                                            ../rp+#
certutil                                                            ..-p+#
pvk2pfx                                                             ..-p[io]+#
nuget push,choco push,choco apikey                                  ..(?:-k|--api-?key|-ApiKey)=#
netlify                                                             ..--auth=#
sonar-scanner,sonar:sonar                                           ..-Dsonar\.(?:login|token|password)=#
openssl passwd,mkpasswd                                             (?:[ \t]+-(?:(?:salt|m|S|R)[ \t]+\S{1,40}|\w{1,6})){0,4}+#
useradd,usermod,adduser                                             ..(?:-p|--password)=#
dscl                                                                ..-passwd[ \t]+\S{1,80}+#
unlock-keychain,create-keychain,set-keychain-password               ..-p+#
security import,set-key-partition-list                              ..-[Pk]+#
altool,notarytool                                                   ..-p+#
doctl auth,influx                                                   ..(?:-t|--token)=#
vault kv put,vault kv patch                                         ..(?P<name>\w[\w.-]{0,60})=#
etcdctl                                                             ..--user[ =]@:#
rclone config                                                       ..\bpass(?:word2?)?+#
iw dev,iw wlan0                                                     ..\d:#
hostednetwork                                                       ..key=#
uci set,uci add_list                                                ..\.(?:key|password|psk|sae_password|private_key)=#
bw login                                                            [ \t]+\S{1,80}+#
bw unlock,cargo login,cloudflared service install                   (?:[ \t]+--?\S{1,60}){0,3}+#
mosquitto_passwd                                                    ..-b[ \t]+\S{1,80}[ \t]+\S{1,60}+#
drush user:password,drush upwd,drush user-password                  [ \t]+\S{1,60}+#
http-basic.                                                         [\w.-]{1,80}[ \t]+\S{1,80}+#
github-oauth.,gitlab-token.,bearer.,pypi-token.                     [\w.-]{1,80}+#
cryptsetup,kinit,realm,pass insert,passwd,smbpasswd,sudo -S,docker login,secret create,secret set  [^\n<|;]{0,160}<<<[ \t]*#
password-command,password-file                                      [ =]['"]?(?:<\()?(?:echo|printf)(?:[ \t]+-n)?+#
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
    return Given(name, Form(f"{LEFT}(?i:{heads}){pattern}", re.ASCII), anchors, leading=True, view="lower", real=real)


def _filled(pattern: str) -> str:
    """A pattern of the table with its marks written out; no group's name is given twice."""
    numbers = iter(range(9))

    def written(match: re.Match[str]) -> str:
        if match[1]:
            bare = _IN_A_PAIR if match[1] != "/" else _BEFORE_AT
            value = f"{OPEN}[^\\s\"'`:{match[1]}]{{1,60}}{OPEN}{match[1]}(?:{IN_QUOTES}|{bare})"
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


_AGAIN = rf"(?:[ \t]*(?:;|&&)[ \t]*(?:echo|printf)[ \t]+{OPEN}(?:(?P=quoted)|(?P=bare)){OPEN};?[ \t]*\)?)?"
"""Printed twice, for a command that asks to have it typed again."""

_PIPED = Piped(
    "password",
    re.compile(
        rf"{LEFT}(?:echo|printf|yes)(?:[ \t]+-[neE]{{1,3}}|[ \t]+{OPEN}%s(?:\\+n)?{OPEN})?[ \t]+{VALUE}{_AGAIN}"
        r"[ \t]*\|[ \t]*"
        r"(?:sudo[ \t]+(?!-S))?(?:(?P<pair>chpasswd)|(?P<base64>base64[ \t]+(?:-d|-D|--decode))|sudo[ \t]+-S|kinit"
        r"|cryptsetup|smbpasswd|passwd[ \t]+[a-z_]|(?:passwd|docker|kubectl|podman|helm|nerdctl|oras|skopeo|gpg2?|gh"
        r"|wrangler|vercel|flyctl|fly|az|pass|secret-tool|vault|openssl|step|ansible-vault|tee)\b[^\n|]{0,160}?"
        r"(?:-stdin|passphrase-fd|--with-token|secret put|secrets? set|secret create|create secret|env add|insert|store"
        r"|login -|-pass(?:in)? stdin|[./_-](?:vault_pass|password|passwd|secret|token)))",
        re.ASCII,
    ),
    ("echo", "printf", "yes "),
    leading=True,
    view="lower",
)


_ALONE = Given(
    "token",
    re.compile(
        rf"{LEFT}(?:curl|https?)(?=[ ]){_OTHERS}(?:-[ua][ \t]?|--user[ =]){OPEN}"
        r"(?P<bare>[A-Za-z0-9+/=_.-]{16,200}):(?=[\s\"'\\]|$)",
        re.ASCII,
    ),
    ("curl ", "http ", "https "),
    leading=True,
    view="lower",
    real=is_token,
)
"""A key that is a user's name at the same time, and has no password."""


_TYPED = Rule(
    "password",
    re.compile(r"send(?:[ \t]+--)?[ \t]+\\*\"(?P<secret>[^\s\"\\]{6,200})\\+r\\*\""),
    ('send "', 'send -- "', 'send \\"', 'send -- \\"'),
    leading=True,
    real=is_given_password,
)
"""What `expect` types at a prompt."""


def commands() -> list[Rule]:
    """All rules of this module."""
    found = list[Rule]()
    for line in _OPTIONS.strip().splitlines():
        heads, pattern = re.split(r"[ \t]{2,}", line, maxsplit=1)
        found.append(given("password", r"(?:\.exe|\.py)?" + _filled(pattern), *heads.split(",")))
    return [*found, _PIPED, _ALONE, _TYPED]
