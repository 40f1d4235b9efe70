"""Substance: whether a reasoning is one: neither a scrap nor an essay, and with something of the case in it."""

import re
from collections.abc import Mapping

from machine.correction.gates.wording import Wording, folded_words, is_dense

FEWEST = 6
"""Words. "Run the tests first." names an act; a reason needs a second clause."""
MOST = 2000
"""Characters (one of a script without spaces counts as three), some 350 words. The reasoning stands in front of an
answer that is seldom longer: past this it would take most of the turn's loss, and a plan is what it would teach."""
_DENSE_CHARACTERS = 3
_FEWEST_TELLING = 3
"""Words that say something of a case."""
_NOVEL = 2
"""Of these, how many must not be the question's."""
_REPEATED = 0.4
"""The part of the question's words that a repetition has: a few facts out of a long question are none."""
_STEM = 5
"""Letters that two forms of a word share."""

_TALK: Mapping[str, str] = {
    "en": (
        "a an the this that these those it its i me my we our us you your he she they them their is are was "
        "were be been being am do does did doing done has have had having will would should shall can could "
        "may might must need needs needed want wants wanted to of in on at by for from with without into "
        "about as and or but so if then than because since when while where which who whom what why how not "
        "no yes also too very just only really again all any some each every both more most much many other "
        "another such same own there here now first next before after up out off over let lets s t ve ll re m "
        "d think thinking thought carefully careful consider considering considered problem problems task "
        "tasks request requests requested ask asks asked user users solution solutions solve solving best "
        "better good great correct correctly right properly complete completely full helpful help answer "
        "answers respond response reply approach approaches way ways step steps make making made sure fix "
        "fixing fixed change changing add adding implement implementing handle handling address find finding "
        "get getting give giving go going come coming take taking took time look looking everything anything "
        "something thing things thoroughly thorough understand understanding proceed plan start begin "
        "important possible possibly high quality well detail details detailed situation issue issues try "
        "trying work working provide providing code result results deal goal"
    ),
    "de": (
        "der die das den dem des ein eine einen einem einer eines ich mich mir mein meine wir uns du er sie "
        "es man sich ist sind war waren sein bin wird werden wurde hat habe haben hatte soll sollte sollten "
        "muss musste kann könnte will möchte darf und oder aber also dass ob wenn weil da dann denn als wie "
        "was wer wo warum nicht kein keine nur auch noch schon sehr mehr zu zum zur im in an am auf aus bei "
        "beim mit nach von vom für über unter vor um durch ohne hier dies diese dieser dieses jetzt zuerst "
        "erst genau sorgfältig gründlich schritt schritte aufgabe aufgaben problem lösung lösungen beste "
        "besten bestmögliche gut gute richtig richtige korrekt vollständig vollständige nutzer benutzer "
        "anfrage bitte antwort antworten nachdenken denken überlegen überlege überlegung finden finde geben "
        "gebe machen mache tun tue helfen hilfreich hilfreiche wichtig wichtige alles möglichst möglich "
        "beheben behebe lösen löse ändern ändere verstehen verstehe"
    ),
    "fr": (
        "le la les l un une des du de d je j me m mon ma mes nous tu il elle on ils se s ce c cet cette ces "
        "est sont était être suis sera a ai avons avait avoir dois doit devrait devrais faut peux peut veut "
        "veux vais va fait faire et ou mais donc car que qu qui quoi si quand comme comment pourquoi ne n pas "
        "plus très bien tout tous toute aussi à au aux en dans sur sous avec sans pour par abord puis ensuite "
        "ici y réfléchir réfléchis réflexion attentivement soigneusement étape étapes tâche problème solution "
        "solutions meilleure meilleur bonne bon qualité complète complet correcte correct utilisateur demande "
        "demandé réponse répondre trouver donner proposer analyser analyse situation aide aider utile "
        "important importante comprendre corriger résoudre"
    ),
    "es": (
        "el los las lo una unos unas del al yo mi mis nos tú él ella ellos se es son era ser soy está están "
        "estoy ha he han haber había debo debe debería tengo tiene que puedo puede quiero quiere voy va hacer "
        "hago y o u pero así porque pues si cuando como cómo qué por para con sin en sobre entre no más muy "
        "bien todo todos toda también ya aquí ahora primero luego después pensar pienso cuidado "
        "cuidadosamente paso pasos tarea problema solución soluciones mejor buena buen calidad completa "
        "completo correcta correcto usuario petición pide respuesta responder encontrar encuentro dar doy "
        "ayudar ayuda útil importante entender analizar resolver arreglar corregir"
    ),
}
"""Words that say nothing of a case."""
_TALKED = frozenset(word for words in _TALK.values() for word in words.split())
_DENSE_TALK = re.compile(
    "[的了是在我你他她它们这那个就都也和与或但不没有要会能可以应该需要请让来去把被给对很更先再然后因为所以如果用户问题任务"
    "回答解决仔细思考考虑认真最好方案步一下]"
    "|[\u3041-\u309f]"
    "|[私今思考言問題解決回答依頼丁寧慎重最善方法一歩]"
)
"""Characters that say nothing of a case; hiragana are mostly grammar."""


def wrong_length(wording: Wording) -> str | None:
    """What is wrong with its length, if anything."""
    if wording.weight < FEWEST:
        return f"too short to be a reasoning: {wording.weight:.0f} words, at least {FEWEST} are asked for"
    dense = sum(is_dense(word.folded) for word in wording.words)
    characters = len(wording.text.strip()) + (_DENSE_CHARACTERS - 1) * dense
    if characters > MOST:
        return f"too long for a short reasoning: {characters} characters, at most {MOST} are wanted"
    return None


def emptiness(wording: Wording, question: str) -> str | None:
    """Why it says nothing, if it does: it repeats the question, or would fit any question."""
    telling = {word.folded: word.weight for word in wording.words if _is_telling(word.folded)}
    if len(telling) < _FEWEST_TELLING:
        return "would fit any question: it names next to nothing of this case"
    asked = {_stem(word) for word in folded_words(question) if _is_telling(word)}
    novel = sum(weight for word, weight in telling.items() if _stem(word) not in asked)
    repeated = {_stem(word) for word in telling} & asked
    if novel < _NOVEL and len(repeated) >= _REPEATED * len(asked):
        return "only repeats the question: it names next to nothing that the question doesn't"
    return None


def _is_telling(word: str) -> bool:
    if is_dense(word):
        return _DENSE_TALK.match(word) is None
    return word not in _TALKED and (len(word) > 2 or word.isdigit())


def _stem(word: str) -> str:
    return word if is_dense(word) else word[:_STEM]
