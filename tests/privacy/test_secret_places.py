"""Made-up secrets, words of people's choice among them, in the places where commands, files and statements take one."""

import base64
import json
import random
import time

import pytest
from credentials import made

from machine.privacy.redact import redacted
from machine.privacy.sources import Sources

NONE = Sources.of({})
SECRETS = (
    "{low:5}7{low:3}",
    "Lantern-orbit-saddle_{num:2}!",
    "timberwalnut{low:1}q",
    "{b62:10}4#{b62:9}",
    "Meadow.copper.Falcon",
)
COMMANDS = """
sshpass -p ¤ ssh root@10.0.0.4
sshpass -p'¤' ssh root@10.0.0.4
mysql -h db -u root -p'¤' shop
mysqldump --user=app --password=¤ shop | gzip > a.gz
["mysqladmin", "-u", "root", "-p¤", "ping"]
mongosh mongodb://db/x -u root -p '¤'
mongodump --host h --username u --password=¤ --out d
cqlsh -u cassandra -p ¤ 10.0.0.1
docker login -u ci -p '¤' registry.corp.internal
az login --service-principal -u app --password ¤ --tenant t
sqlcmd -S tcp:sql -U sa -P '¤' -Q 'select 1'
redis-cli -h cache -a ¤ ping
redis-cli CONFIG SET requirepass "¤"
ldapsearch -x -D cn=admin,dc=corp -w ¤ -b dc=corp
ldappasswd -x -D cn=admin -w x -s ¤ uid=x
snmpget -v2c -c ¤ 10.0.0.1 sysName.0
snmpwalk -v3 -l authPriv -u mon -a SHA -A ¤ -x AES 10.0.0.1
snmpwalk -v3 -l authPriv -u mon -x AES -X '¤' 10.0.0.1
zip -r -P ¤ out.zip dist/
unzip -P "¤" in.zip
7z a -p¤ out.7z dist
rar a -hp¤ out.rar dist
keytool -list -keystore release.jks -storepass ¤
keytool -genkey -alias a -keypass '¤' -keystore k
openssl pkcs12 -in a.p12 -passin pass:¤ -nodes
openssl enc -aes-256-cbc -k ¤ -in a
apksigner sign --ks r.jks --ks-pass pass:¤ a.apk
ssh-keygen -t ed25519 -N '¤' -f id
gpg --batch --passphrase ¤ -d f.gpg
htpasswd -bc /etc/nginx/htpasswd deploy ¤
curl -fsS -u jenkins:¤ https://ci.corp.internal
curl --user 'jenkins:¤' -T b.zip https://ci.corp.internal
curl -x http://proxy:3128 --proxy-user me:¤ https://x.org
http -a admin:¤ GET :8080/x
smbclient //10.0.0.7/share -U 'svc%¤'
lftp -u deploy,¤ ftp://h
sqlplus scott/¤@db
secretsdump.py corp/bob:¤@10.0.0.1
crackmapexec smb 10.0.0.1 -u bob -p '¤'
net use Z: \\\\srv\\share ¤ /user:bob
net use Z: \\\\srv\\share /user:bob ¤
net user bob ¤ /add
net use Z: \\\\nas\\share /user:CORP\\bob "¤" /persistent:yes
curl -u bob:'¤' https://ci.corp.internal
curl --user "bob":"¤" https://ci.corp.internal
curl -u '[[{hex:32}]]:' https://api.corp.internal/v1
lftp -u bob,'¤' h -e "mirror; quit"
sqlplus bob/"¤"@//ora:1521/x
(echo '¤'; echo '¤') | smbpasswd -s -a bob
signtool sign /f a.pfx /p "¤" /fd sha256 a.exe
codecov -t [[{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}]]
bash <(curl -s https://codecov.io/bash) -t [[{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}]]
snyk auth [[{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}]]
wandb login --relogin [[{hex:40}]]
openssl enc -d -aes-256-cbc -K [[{hex:64}]] -iv 00
openssl passwd -1 -salt xy '¤'
htpasswd -nbB admin '¤'
psexec \\\\srv -u bob -p ¤ cmd
schtasks /create /tn x /tr y /ru bob /rp "¤"
certutil -f -p "¤" -importPFX a.pfx
poetry publish -u a -p ¤
dotnet nuget push a.nupkg -k [[{low:46}]]
useradd -m -p '¤' bob
security unlock-keychain -p ¤ login.keychain
security import a.p12 -P ¤ -k x
doctl auth init -t [[{hex:64}]]
vault kv put secret/x value=¤
etcdctl --user root:¤ get x
rclone config create x webdav user bob pass ¤
bw unlock '¤'
bw login a@b.io '¤'
mosquitto_passwd -b f bob ¤
composer config http-basic.repo.x bob ¤
cargo login [[cio{b62:32}]]
kinit bob <<< '¤'
cryptsetup luksFormat /dev/sdb1 <<< '¤'
rsync --password-file=<(echo '¤') a rsync://x
yes '¤' | passwd bob
printf '¤' | docker secret create db -
drush user:password bob "¤"
sonar-scanner -Dsonar.login=[[{hex:40}]]
[smtp.relay.corp.internal]:587 bob@corp.internal:¤
xfreerdp /v:h /u:bob /p:'¤'
nmcli dev wifi connect Guest password '¤'
wpa_passphrase Guest ¤
networksetup -setairportnetwork en0 Guest ¤
rabbitmqctl change_password guest ¤
rabbitmqctl add_user bob '¤'
rabbitmqadmin -u admin -p ¤ list queues
mc alias set prod https://s3.corp.internal admin ¤
vault login ¤
vault operator unseal ¤
aws ssm put-parameter --name /p/x --type SecureString --value '¤'
aws secretsmanager create-secret --name x --secret-string ¤
az keyvault secret set --vault-name v --name n --value ¤
gh secret set X --body '¤' --repo a/b
npm config set //reg.corp.internal/:_authToken ¤
fly secrets set X=¤
kubectl create secret generic x --from-literal=x=¤
plink -ssh root@h -pw ¤ ls
ipmitool -I lanplus -H h -U admin -P ¤ power on
mosquitto_pub -h h -u u -P ¤ -t t -m m
echo 'root:¤' | chpasswd
chpasswd <<< 'root:¤'
echo ¤ | sudo -S ls
echo "¤" | docker login -u ci --password-stdin
printf '%s' '¤' | gh secret set X
echo -n ¤ | kinit bob
expect "assword:"\\nsend "¤\\\\r"
"""
FILES = """
requirepass ¤
masterauth ¤
sentinel auth-pass mymaster ¤
user app on >¤ ~* +@all
ACL SETUSER app on >¤ ~*
10.0.0.2:6379> AUTH ¤
rocommunity ¤ 10.0.0.0/8
com2sec local 10.0.0.0/8 ¤
createUser mon SHA ¤ AES
snmp-server community ¤ RO
snmp-server user mon grp v3 auth sha ¤ priv aes 128 x
tacacs-server key ¤
radius-server host 10.0.0.1 key 7 ¤
username admin privilege 15 password 0 ¤
line vty 0 4\\n password 7 ¤
enable secret 5 ¤
crypto isakmp key ¤ address 203.0.113.7
203.0.113.1 203.0.113.9 : PSK "¤"
bob : EAP "¤"
WIFI:T:WPA;S:Guest;P:¤;;
<keyMaterial>¤</keyMaterial>
machine h login bob password ¤
Server=sql;Database=hr;Uid=app;Pwd=¤;Encrypt=yes
"""
CODE = """
CREATE LOGIN app WITH PASSWORD = N'¤', DEFAULT_DATABASE = [app];
SET PASSWORD FOR 'root'@'localhost' = PASSWORD('¤');
ALTER USER app WITH ENCRYPTED PASSWORD '¤';
CREATE USER app IDENTIFIED BY '¤';
ALTER USER 'app'@'%' IDENTIFIED WITH mysql_native_password BY '¤';
create role app login password '¤';
page.fill('#password', '¤')
page.get_by_label("Password").fill("¤")
cy.get('input[name=password]').type('¤')
driver.find_element(By.ID, 'password').send_keys('¤')
await page.locator('input[type="password"]').pressSequentially("¤");
"""
URLS = """
ftp://root:¤@files.corp.internal/in
clickhouse://etl:¤@db:9000/default
rtsp://admin:¤@10.0.4.8:554/stream1
cockroachdb://svc:¤@db:26257/app
origin\\thttps://oauth2:¤@git.corp.internal/a/b.git (fetch)
mongodb+srv://svc:¤@c0.ab1cd.mongodb.net/?w=majority
"""
MACHINES = """
https://api.corp.internal/v1?format=json&key=[[{hex:20}]]&limit=5
GET /v1/data?azure_devops_ext_pat=[[{low:52}]]
https://h/x?a=1\\\\u0026sig=[[{hex:32}]]
https://b.s3.amazonaws.com/k?X-Amz-Expires=9&X-Amz-Signature=[[{hex:64}]]
https://storage.googleapis.com/b/o?X-Goog-Signature=[[{hex:128}]]
https://d1.cloudfront.net/x?Expires=1&Signature=[[{url:80}__]]&Key-Pair-Id=K
https://fn.azurewebsites.net/api/x?code=[[{url:54}==]]
curl -b 'connect.sid=[[{url:32}]]' https://app.corp.internal
curl --cookie "PHPSESSID=[[{low:26}]]" https://app.corp.internal
s.cookies.set("PHPSESSID", "[[{low:26}]]", domain="app.corp.internal")
res.cookie("sid", "x"); setCookie("auth_token", "[[{url:32}]]")
requests.get(u, cookies={{"sessionid": "[[{low:32}]]"}})
.corp.internal\\tTRUE\\t/\\tTRUE\\t1790000000\\tsessionid\\t[[{low:32}]]
Unseal Key 1: [[{b64:43}=]]
"unseal_keys_b64": ["[[{b64:43}=]]"]
Recovery Key 3: [[{b64:44}]]
requests.get(url, auth=('svc', '[[{pass:14}]]'))
HTTPBasicAuth("svc", "[[{pass:14}]]")
smtp.login("me@corp.internal", "[[{pass:14}]]")
new NetworkCredential("svc", "[[{pass:14}]]")
geth account import <(echo [[{hex:64}]])
cast send --private-key 0x[[{hex:64}]] x
$ cat config/master.key\\n[[{hex:32}]]
$ cat .vault_pass\\n[[{pass:12}]]
$ cat /var/lib/rabbitmq/.erlang.cookie\\n[[{b32:20}]]
$ cat /run/secrets/db_password\\n[[{word:14}]]\\n$ ls
$ echo $API_TOKEN\\n[[{b62:32}]]\\nCleaning up
$ op read op://prod/db/password\\n[[{word:14}]]
$ openssl rand -hex 32\\n[[{hex:64}]]
{{"recovery_codes": ["0a682-abdb5", "[[{hex:5}-1{hex:4}]]", "45368-5c6f8"]}}
Your backup codes:\\n\\n1. 9db0451b\\n2. [[1{hex:7}]]\\n3. 3b4f3cd1
"""
BENIGN = [
    *("mysql -u root -p shop", "docker run -p 8080:8080 image", "unzip -P password x.zip", "curl -u user:password https://x"),
    *("docker login -u me -p $DOCKER_PASS", "sshpass -p ${SSH_PASS} ssh h", "sshpass -p <password> ssh h"),
    *("redis-cli -a your-password ping", "echo hello | base64 -d", "echo aGVsbG8gd29ybGQ= | base64 --decode"),
    *("echo $PASSWORD | docker login --password-stdin", "mysqldump --password=%s db", "zip -r out.zip dist/directory2"),
    *("snmpget -v2c -c public 10.0.0.1 sysName.0", "rocommunity public", "enable secret level for all the users"),
    *("username alice password required in form2", "set password expired for bob", "requirepass foobared"),
    *("the recovery codes are shown once and stored as hashed values sha256", "the backup code path is tested in test_backup2"),
    *("postgres://user:password@localhost/db", "ftp://anonymous:guest@h/", "https://user:${TOKEN}@h/x", "http://u:pass@proxy:80"),
    *('urlparse("http://username:yourpassword@host:80")', "r'://([^:]+):([^@]+)@'", "redis://:{password}@{host}:{port}/0"),
    *("nodes are identified by incident_edges", "a row identified by `session.previous_id`", "login(username, password)"),
    *("auth=(user, password)", "client.login('username', 'password')", "page.fill('#email', 'somebody@corp.example')"),
    *("page.fill('#password', process.env.PASSWORD)", "input.type('password')", "expect(field).to_have_attribute('type', 'password')"),
    *("kind: SecretStore\ndata:\n  a: Z2FsYXh5LWF0dHJhY3Q=", "kind: ConfigMap\ndata:\n  a: Z2FsYXh5LWF0dHJhY3Q="),
    *("kind: Secret\ndata:\n  entry: cGFzc3dvcmQ=\n  username: YWRtaW5pc3RyYXRvcg==", "kind: Secret\nmetadata:\n  name: gateway-secrets"),
    *("kind: Secret\nstringData:\n  password: ${DB_PASSWORD}\n  host: db.corp.internal", "sort(key=lambda x: x.name)&key=name"),
    *("?version=stable&code=_MM_NORM_1_2+++++//+interval+%5B1,+2)%0A_MM_NORM", "?key=name&code=404&sig=true", "https://h/x?code=authorization_code_value&auth=basic", "$ cat secret.py\nimport os"),
    *("$ cat tokens.json\n{", "$ echo $PATH\n/usr/local/bin:/usr/bin", "$ cat README.md\nInstallation", "$ cat secrets/README.md\nOverview-of-secrets"),
    *(".corp.internal\tTRUE\t/\tFALSE\t0\tlang\ten-GB-oxendict", "WIFI:T:WPA;S:Guest;P:password;;", "aws ssm put-parameter --value file://x.json"),
    *("kubeadm join 10.0.0.1:6443 --token <token>", "gh secret set NAME --body \"$VALUE\"", "kubectl create secret generic x --from-literal=user=administrator1"),
]  # fmt: skip


def wrapped(text):
    """The text in the ways in which sessions hold it, and what each is."""
    lines = ["first", *text.split("\n"), "last"]
    once = json.dumps({"command": text})
    yield "plain", text
    yield "lines", "\n".join(lines)
    yield "windows", "\r\n".join(lines)
    yield "diff", "\n".join(f"+{line}" for line in lines)
    yield "numbered", "\n".join(f"{n:6}\t{line}" for n, line in enumerate(lines, 1))
    yield "json", once
    yield "json in json", json.dumps({"arguments": once})


@pytest.mark.parametrize("table", ["COMMANDS", "FILES", "CODE", "URLS", "MACHINES"])
def test_what_stands_where_a_secret_has_to_is_found(table):
    dice, missed = random.Random(table), []
    for line in globals()[table].strip().splitlines():
        form = line.replace("\\\\", "\0").replace("\\n", "\n").replace("\\t", "\t").replace("\0", "\\")
        for secret_form in SECRETS if "[[" not in form else ("",):
            if "[[" in form:
                text, secret = made(form, dice)
            else:
                secret = made(secret_form, dice)[0]
                text = form.replace("¤", secret)
            for how, whole in wrapped(text):
                if secret in redacted([whole, "another"], NONE)[0][0]:
                    missed.append((how, whole))
    assert not missed, f"{len(missed)}: {missed[:40]}"


@pytest.mark.parametrize("text", BENIGN)
def test_what_only_stands_there_stays(text):
    assert redacted(text, NONE) == (text, [])
    quoted = json.dumps({"command": text})
    assert redacted(quoted, NONE) == (quoted, [])


MANIFESTS = """
apiVersion: v1\\nkind: Secret\\nmetadata:\\n  name: gateway\\ndata:\\n  user: YWRtaW5pc3RyYXRvcg==\\n  entry: ¤\\ntype: Opaque
apiVersion: v1\\ndata:\\n  entry: ¤\\nkind: Secret\\nmetadata:\\n  name: gateway
kind: List\\nitems:\\n- kind: Secret\\n  data:\\n    entry: "¤"
{"kind": "Secret", "data": {"entry": "¤", "username": "YWRtaW5pc3RyYXRvcg=="}}
$ kubectl get secret etl -o jsonpath='{.data}'\\n{"entry":"¤"}
$ kubectl get secret etl -o jsonpath='{.data.entry}'\\n¤\\n$ ls
"""


@pytest.mark.parametrize("form", MANIFESTS.strip().splitlines())
@pytest.mark.parametrize("plain", ["timberwalnut", "river-falcon", '{"a": 1}', "a b c d e", "\x00\x9c\xfe\x01" * 6])
def test_what_a_secret_of_kubernetes_holds_goes_whatever_it_is(form, plain):
    value = base64.b64encode(plain.encode("latin-1")).decode()
    for how, whole in wrapped(form.replace("\\n", "\n").replace("¤", value)):
        clean, _ = redacted([whole, "another"], NONE)
        assert value not in clean[0], how
        assert "YWRtaW5pc3RyYXRvcg==" in clean[0] or "YWRtaW5pc3RyYXRvcg" not in whole


def test_the_secrets_of_a_long_list_all_go_and_what_stands_beside_them_stays():
    values = [base64.b64encode(f"timberwalnut{n}".encode()).decode() for n in range(200)]
    secrets = [f"kind: Secret\nmetadata:\n  name: s{n}\ndata:\n  entry: {value}" for n, value in enumerate(values)]
    kept = "kind: ConfigMap\ndata:\n  entry: cml2ZXJmYWxjb24="
    clean, _ = redacted("\n---\n".join([kept, *secrets, kept]), NONE)
    assert not [value for value in values if value in clean]
    assert clean.count("cml2ZXJmYWxjb24=") == 2


@pytest.mark.parametrize(
    "piece",
    [
        *("mysql -p", "seed ", "seed abc ", "echo abcdefgh | ", "cookie=a;", "[1,", "kind: Secret\ndata:\n a: b\n"),
        *(
            '{"kind": "Secret", "data": {"a": "',
            "recovery codes a1b2\n",
            "get secret json\n",
            "auth=('a','b'),",
            "?key=a&",
        ),
        *(
            "WIFI:S:a;",
            "MIIEvQIBADAN",
            "snmp-server user ",
            "cat secret\n",
            "create user a password ",
            "$6$a",
            "net use a ",
        ),
    ],
)
def test_no_text_of_beginnings_takes_more_than_its_length(piece):
    text = piece * (60_000 // len(piece))
    began = time.process_time()
    redacted(text, NONE)
    assert time.process_time() - began < 4
