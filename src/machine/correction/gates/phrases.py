"""Phrases: wordings that speak of training, to a reader, or of the agent from outside; `hindsight` holds the others.

Patterns of `re`, by language, matched as whole words and without case. `{USER}` and the like stand for the sets below.
They find the wordings that are here and no others.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from machine.correction.gates.wording import Span

_SETS: Mapping[str, str] = {
    "USER": r"(?:the )?(?:user|developer|customer|human)",
    "OWN": r"(?:my|me|I|this answer|this turn|the (?:previous|earlier|first|last|answer|reply|response|turn|attempt))",
    "WORK": r"(?:answer|attempt|response|turn|edit|change|approach|reply|solution|fix|try|proposal|suggestion)",
    "UNHAPPY": r"(?:unhappy|unsatisfied|dissatisfied|annoyed|angry|upset|frustrated|displeased|disappointed"
    r"|not (?:\w+ly )?(?:happy|satisfied|pleased))",
    "DONE": r"(?:been|gone|known|seen|taken|written|done|made|chosen|begun|run|found|told|kept|left|thought|understood"
    r"|looked|noticed|asked|waited|(?:read|set|put|\w{3,}ed)(?=\s*(?:[.,;:!`\"()]|$)|\s+(?:the|an?|this|that|these"
    r"|those|it|its|my|their|for|in|into|at|on|to|with|whether|if|what|which|where|how|first|before|instead|all|both"
    r"|each|every|only|more|[\w-]*[./_]\S*)\b))",
    "NUTZER": r"(?:der|die|dem|den) (?:Nutzer|Benutzer|User|Anwender|Entwickler|Kunde)(?:in|n)?",
    "ARBEIT": r"(?:Antwort|Versuch|Änderung|Lösung|Ansatz|Vorschlag|Zug)",
    "UTIL": r"l['’]utilisat(?:eur|rice)",
    "FAITE": r"(?:réponse|tentative|modification|solution|approche|proposition)",
    "USUARIO": r"(?:el usuario|la usuaria)",
    "HECHO": r"(?:respuesta|intento|cambio|solución|propuesta|enfoque)",
    "HACER": r"(?:\w+ado|\w+[ií]do|hecho|visto|escrito|puesto|dicho|abierto)",
    "START": r"(?:(?:also|then|first|next|finally|so|and|but|therefore|instead),? )?",
    "CLAUSE": r"(?:(?<![^\n])|(?<=[.!?:;,] ))",
    "ACT": r"(?:read|run|check|ask|look|search|edit|use|verify|confirm|grep|tell|answer|reply|respond|avoid|stop|think"
    r"|follow|list|inspect|open|test|notice|measure|write|add|change|keep|restore|create|call|touch|guess|assume)",
    "AGENT": r"(?:(?:good|better|careful|helpful|smart|competent|coding|software|programming|AI|language) )*"
    r"(?:assistant|agent|AI|language model|LLM|chatbot)",
    "MUST": r"(?:should|must|needs? to|ought to|has to|would|could have|will|shall|may not"
    r"|is (?:supposed|expected|meant) to)",
}


@dataclass(frozen=True)
class Phrases:
    """Patterns by language. In scripts that put spaces between words they match whole words only."""

    en: tuple[str, ...] = ()
    de: tuple[str, ...] = ()
    fr: tuple[str, ...] = ()
    es: tuple[str, ...] = ()
    zh: tuple[str, ...] = ()
    ja: tuple[str, ...] = ()
    anywhere: tuple[str, ...] = ()
    """Matched as they are, in every language."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """One pattern for all of them, made when first asked for."""
        spaced = "|".join([*self.en, *self.de, *self.fr, *self.es])
        words = [rf"(?<!\w)(?:{spaced})(?!\w)"] if spaced else []
        pattern = "|".join([*words, *self.zh, *self.ja, *self.anywhere])
        for name, alternatives in _SETS.items():
            pattern = pattern.replace("{" + name + "}", alternatives)
        return re.compile(pattern, re.IGNORECASE)

    def spans(self, text: str) -> Iterator[Span]:
        """Where they stand in a text."""
        return (match.span() for match in self.pattern.finditer(text))

    def are_in(self, text: str) -> bool:
        """Whether any of them stands in a text."""
        return self.pattern.search(text) is not None


TRAINING = Phrases(
    en=(
        r"train(?:ing)? (?:data|sets?|examples?|samples?|signal|material|corpus|rows?)",
        r"fine-? ?tun(?:e|ed|es|ing)|(?<![.])datasets?(?![.(\[])|(?-i:LoRA|Tinker|RLHF)|reward model|loss mask",
        r"(?:be|being|been|was|were|am|are|is|get|gets|got) trained|will be trained|trained on",
        r"(?:positive|negative|preference) (?:example|sample|pair)s? for (?:the|a) (?:\w+ )?(?:student|model)",
    ),
    de=(r"trainings?(?:daten|beispiel|satz|lauf)\w*|(?:fein|fine)-?tuning|trainiert (?:wird|werden|wurde)",),
    fr=(
        r"(?:données|jeux?|exemples?) d['’]entra[iî]nement|entra[iî]nement du modèle",
        r"entra[iî]ner (?:le|un) modèle",
    ),
    es=(r"(?:datos|ejemplos?|conjunto) de entrenamiento|entrenar (?:el|al|un) modelo|entrenamiento del modelo",),
    zh=(r"训练(?:数据|集|样本|模型)|微调|数据集",),
    ja=(r"学習データ|訓練データ|教師データ|ファインチューニング|データセット",),
)
"""Words of training models; no finding where the project itself is about it. Looked for outside code."""

ABOUT_TRAINING = Phrases(
    en=(
        r"train(?:s|ed|er|ing|able)?|fine-? ?tun\w*|datasets?|data ?sets?|lora|checkpoints?|epochs?|classifiers?|rlhf",
    ),
    de=(r"training\w*|trainiert?\w*|feintuning|finetuning|datensätze",),
    fr=(r"entra[iî]n\w+|jeux? de données",),
    es=(r"entren\w+|conjuntos? de datos",),
    zh=(r"训练|微调|数据集",),
    ja=(r"学習|訓練|データセット",),
)
"""A context or question that speaks of training models."""

OWN_TRAINING = Phrases(
    en=(
        r"(?:this|my) (?:\w+ )?(?:turn|reasoning|trace|trajectory|conversation|answer|reply|response|session|thought"
        r"|thinking|example) (?:will|is|gets?|may|might|can|should|must|has|would)(?: \w+){0,4}?"
        r" (?:train(?:ing|ed)?|tagged|dataset|fine-? ?tun\w+)",
        r"I(?: am|['’]m| was| will be| have been| get) (?:being )?(?:trained|fine-? ?tuned)",
        r"(?:good|bad|great|perfect) (?:training|fine-? ?tuning) (?:example|sample|data)",
        r"tag(?:ged|s)? (?:this |it |me |the turn )?(?:as )?(?:good|bad|observed)",
        r"student (?:model )?(?:learns?|will learn|is trained|should learn) from (?:this|it|that)",
    ),
    de=(
        r"(?:diese[rs]?) (?:zug|antwort|beispiel|gedanke\w*|überlegung|verlauf|turn|runde)(?: \w+){0,5}?"
        r" (?:training\w*|trainiert|feintuning|finetuning)",
    ),
    fr=(r"(?:cet?|cette) (?:tour|réponse|exemple|raisonnement|échange) .{0,40}?(?:entra[iî]n\w+|jeu de données)",),
    es=(r"est[ea] (?:turno|respuesta|ejemplo|razonamiento) .{0,40}?(?:entren\w+|conjunto de datos)",),
    zh=(r"(?:这|本)(?:段|条|次|个|轮)?(?:内容|回答|推理|对话)?.{0,6}(?:训练|微调)",),
    ja=(r"この(?:内容|回答|推論|会話|ターン).{0,12}(?:学習データ|訓練データ|学習に)",),
)
"""Says of the turn itself that it is trained on or tagged, which no project is about."""

MACHINE = Phrases(
    anywhere=(
        r"(?<![\w/.:-])/(?:good|corrections?|tagged)(?![\w/-])",
        r"(?<![\w/.:-])/(?:train|release|tinker|machine) (?:sft|runs?|eval|validate|auto|data|student|work|list|use)\b",
        r"(?-i:(?<!\w)Machine(?:['’]s)? (?:will|keeps?|trains?|learns?|tags?|saves?|needs?|wants?|records?|stores?)\b)",
        r"(?-i:(?<!\w)[a-z][\w'’-]*[,;]? Machine(?! (?:[Ll]earning|[Vv]ision|[Tt]ranslation))(?!\w))",
    ),
)
"""Machine and its commands, in code too."""

INSTRUCTION = Phrases(
    en=(
        r"you (?:really |also |always |first |then |just )*(?:should|must|ought to|should ?n[o'’]t|must ?n[o'’]t)",
        r"{CLAUSE}{START}you(?:['’]ll| will)? (?:need|have|want) to",
        r"you(?:['’]ll| will)? (?:need|have|want) to (?:\w+ly )?(?:first )?{ACT}|you['’]d better",
        r"{CLAUSE}please",
        r"your (?:task|job|goal|answer|reply|response) (?:is|should|must|was|has)",
    ),
    de=(
        r"du (?:\w+ )?(?:sollst|solltest|musst|müsstest|darfst)|(?:solltest|sollst|musst|müsstest|darfst) du",
        r"(?:sollten|müssen|dürfen) (?-i:Sie)",
    ),
    fr=(r"tu (?:ne )?(?:dois|devrais|devras)|vous (?:ne )?(?:devez|devriez|devrez)|il (?:te|vous) faut",),
    es=(r"(?:debes|deberías|tienes que|has de|debe usted)|asegúrate|asegúrese",),
    zh=(r"你(?:应该|需要|必须|要|不要)|请(?:先|务必|确保|不要|记得|注意)|务必",),
    ja=(r"(?:して|で|て)ください(?!と|」)|しなさい|忘れないで",),
)
"""Speaks to somebody."""

COMMAND = Phrases(
    en=(
        r"{START}(?:make sure|ensure (?:that )?you|be sure to|be careful to|(?:don['’]t|do not) forget|remember to)",
        r"{START}(?:please|(?:always|never) {ACT})",
    ),
    de=(
        r"stelle? (?:bitte )?sicher|achtet? (?:bitte )?darauf|vergiss nicht|denke? daran|sorge? dafür",
        r"bitte|pass auf",
    ),
    fr=(
        r"n['’]oubli(?:e|ez) pas|assure[sz]?-(?:toi|vous)|veille[zr]? à|pense[sz]? à",
        r"fais attention|faites attention",
    ),
    es=(r"no (?:olvides|olvide)|recuerda|recuerde|ten cuidado|procura|por favor",),
    zh=(r"确保|记得|不要忘记|别忘了",),
    ja=(r"必ず.{0,20}(?:して|すること)",),
)
"""Begins a sentence that tells somebody to do something."""

REPORTED = re.compile(
    r"(?:says?|said|states?|stated|recommends?|suggests?|warns?|docs?|documentation|manual|guide|readme|wrote|writes"
    r"|told me|asks?|asked|that|means?|if|when|where|once|because|since|whether|what|until|after|before|unless)"
    r"[ ,:]*\Z",
    re.IGNORECASE,
)
"""Before a phrase: somebody else's words, or anybody's."""

NARRATOR = Phrases(
    en=(
        r"(?<!user )(?:the|an?|any|this) {AGENT} {MUST}",
        r"(?:the|an?|any|this) (?:language )?model (?:should|must|needs? to|ought to) (?:\w+ly |first |always |never"
        r" |not )*(?:read|check|look|ask|notice|grep|search|answer|respond|reply|edit|verify|mention|reali[sz]e)",
        r"as an? (?:AI|(?:large )?language model|(?:AI |coding )?assistant|(?:AI |coding )?agent)",
    ),
    de=(
        r"(?:der|ein|dieser) (?:gute[r]? |hilfreiche[r]? )?(?:KI-?|coding-?|programmier)?(?:assistent|agent) "
        r"(?:sollte?|muss|müsste|darf|hätte|würde|soll)",
        r"(?:die|eine) KI (?:sollte?|muss|müsste|darf|hätte)|als (?:KI|sprachmodell|KI-(?:assistent|modell))",
    ),
    fr=(
        r"(?:l['’]|un |cet )(?:bon )?(?:assistant|agent|IA) (?:ne )?(?:doit|devrait|aurait)",
        r"en tant qu['’](?:IA|assistant|agent)|en tant que modèle de langage",
    ),
    es=(
        r"(?:el|un|este) (?:buen )?(?:asistente|agente|modelo de lenguaje) (?:no )?(?:debe|debería|tiene que|habría)",
        r"como (?:una )?(?:IA|modelo de lenguaje)|la IA (?:debe|debería)",
    ),
    zh=(r"(?:助手|智能体|人工智能)(?:应该|应当|需要先|必须)|作为(?:一个)?(?:AI|人工智能|语言模型|助手)",),
    ja=(
        r"(?:アシスタント|エージェント)は.{0,30}(?:べき|必要がある|なければならない)",
        r"AIとして|言語モデルとして",
    ),
)
"""Speaks of the agent as of somebody else; no finding where the project itself is about agents."""

NARRATED = re.compile(
    r"assistants?|agents?|AI|LLMs?|chatbots?|language models?|KI|assistent\w*|asistentes?|agentes?|IA"
    r"|助手|智能体|エージェント",
    re.IGNORECASE,
)
"""The words for the agent in these phrases."""
