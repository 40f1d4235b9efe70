"""Hindsight: wordings of somebody who knows how the turn went, or that its user did not like it.

Patterns as in `phrases`.
"""

from machine.correction.gates.phrases import Phrases

LOOKING_BACK = Phrases(
    en=(
        r"(?:in|with) (?:hindsight|retrospect)",
        r"looking back(?=,| now| on (?:this|my)| at my)",
        r"as it (?:later )?turned out",
        r"(?:it )?(?:later|afterwards) (?:turned out|became clear)|turned out later",
        r"the (?:right|correct|expected|proper|better|ideal|desired) answer (?:is|was|would|should|here)",
        r"the (?:right|correct|proper|better|ideal|desired) (?:response|reply) (?:would have|should have|was"
        r"|is(?! (?:\d|not|json|http|an? (?:\d|http|json|empty|error))))",
        r"the (?:right|correct|proper|better|desired) (?:behaviou?r|reaction|move|thing) (?:would|should) have been",
    ),
    de=(
        r"im nachhinein|rückblickend|hinterher betrachtet",
        r"wie sich (?:später|dann|hinterher|nachher) (?:zeigte|herausstellte)",
        r"die (?:richtige|korrekte|erwartete) antwort (?:ist|war|wäre|lautet|hätte)",
    ),
    fr=(
        r"avec le recul|rétrospectivement|après coup",
        r"il s['’]est avéré (?:plus tard|ensuite|après)",
        r"la (?:bonne|vraie) réponse (?:est|était|serait|aurait)",
    ),
    es=(
        r"en retrospectiva|mirando atrás|visto lo visto|a toro pasado",
        r"(?:después|más tarde|luego) resultó que|resultó después que",
        r"la respuesta (?:correcta|esperada) (?:es|era|sería|habría)",
    ),
    zh=(r"事后(?:看|来看|想)|回过头来?看|正确(?:的)?答案(?:是|应)",),
    ja=(r"振り返ると|後から考えると|今思えば|正しい(?:答え|回答)は",),
)
"""Said only by somebody who knows how it ended."""

DISPLEASURE = Phrases(
    en=(
        r"(?:I|we) should(?:n['’]t| not)? (?:really |probably |already |also |first )?(?:not )?have (?:\w+ly )?{DONE}",
        r"next time,? (?:I|we) (?:should|will|must|need|have to|ought|can|want)|this time,? (?:I|around)",
        r"{USER} (?:has |have |had |clearly |already |then |later |rightly )*(?:rejected|refused|disliked|hated"
        r"|corrected|criticised|criticized|complained about|objected to) (?:{OWN}|(?:this|that|the) {WORK})",
        r"{USER} (?:complained|objected) that {OWN}",
        r"{USER} (?:was|were|got|became) (?:\w+ly )?{UNHAPPY}",
        r"{USER} (?:is|seems|will be|would be|will get) (?:\w+ly )?{UNHAPPY} (?:with|about|by|at|because) {OWN}",
        r"{USER} (?:did not|didn['’]t) (?:like|accept|approve of|appreciate) (?:it|that|this|{OWN}|the {WORK})",
        r"{USER} (?:actually|really) (?:wanted|meant|expected)",
        r"{USER}['’]s (?:correction|objection|displeasure|rejection|dissatisfaction|criticism)",
        r"(?:according to|given|per|after|following|from|as) the correction",
        r"the correction (?:says|said|asks|tells|states)|the rejected {WORK}",
        r"my (?:previous|earlier|last|first|original|initial|prior) {WORK}",
        r"my mistake|I (?:made|was making) (?:a|the) mistake|I was wrong (?:to|about|that)",
        r"it was (?:a mistake|wrong) (?:of me|to (?:trust|assume|guess|skip|edit|change|answer|rely|jump|start|touch))",
    ),
    de=(
        r"(?:ich|wir) hätten? .{0,80}?(?:sollen|müssen)",
        r"(?:beim )?nächste[sn]? mal (?:sollte|muss|werde|mache|prüfe|lese) ich",
        r"diesmal (?:sollte|muss|werde|mache|prüfe) ich",
        r"{NUTZER} (?:hat|hatte) (?:mich|das|dies|meine?[nmr]?|diese[nmrs]?|die|den) .{0,40}?(?:abgelehnt|korrigiert"
        r"|zurückgewiesen|kritisiert|bemängelt|verworfen|beanstandet)",
        r"{NUTZER} war (?:mit .{1,40}? )?(?:nicht (?:zufrieden|glücklich|einverstanden)|unzufrieden|verärgert"
        r"|enttäuscht|genervt|sauer)",
        r"{NUTZER} (?:wollte|meinte) eigentlich|{NUTZER} gefiel .{0,30}nicht",
        r"meine?[nmr]? (?:letzte|vorige|frühere|erste|vorherige|ursprüngliche)[rnms]? {ARBEIT}",
        r"(?:laut|nach|gemäß) (?:der )?korrektur|mein fehler war|ich habe (?:mich geirrt|einen fehler gemacht)",
    ),
    fr=(
        r"j['’]aurais (?:pas )?dû|je n['’]aurais pas dû|nous aurions dû",
        r"la prochaine fois,? je|cette fois(?:-ci)?,? je",
        r"{UTIL} (?:a|avait) (?:rejeté|refusé|corrigé|critiqué) (?:ma|mon|mes|cette|ce|la {FAITE})",
        r"{UTIL} m['’]a (?:corrigé|repris|reproché)",
        r"{UTIL} n['’](?:était|a) pas (?:été )?(?:satisfaite?|contente?|d['’]accord|aimé|apprécié)",
        r"{UTIL} était (?:mécontente?|déçue?|fâchée?|insatisfaite?)|{UTIL} voulait en fait",
        r"ma (?:première|dernière|précédente) {FAITE}|ma {FAITE} (?:précédente|initiale)",
        r"selon la correction|mon erreur (?:était|a été)|je me suis trompée?",
    ),
    es=(
        r"(?:no )?(?:debería|tendría que|tenía que) haber {HACER}|(?:no )?debí (?:haber )?\w+",
        r"la próxima vez,? (?:debo|tengo|debería|voy)|esta vez,? (?:debo|voy a|tengo que)",
        r"{USUARIO} (?:rechazó|ha rechazado|corrigió|ha corregido|criticó) (?:mi|mis|esta|este|(?:la|el) {HECHO})",
        r"{USUARIO} me (?:corrigió|ha corregido)|al usuario no le (?:gustó|ha gustado|pareció)",
        r"{USUARIO} (?:no (?:quedó|estaba) (?:contento|satisfecho|conforme)|estaba (?:descontento|molesto))",
        r"mi (?:anterior|primer|primera|último|última) {HECHO}|mi {HECHO} (?:anterior|previa|previo|inicial)",
        r"según la corrección|mi error fue|me equivoqué|{USUARIO} en realidad quería",
    ),
    zh=(
        r"用户(?:拒绝|否定|纠正|批评)了?我|用户(?:不满意|不喜欢)我",
        r"我(?:之前|上次|刚才)的(?:回答|修改|做法)|我本(?:来)?应该",
    ),
    ja=(
        r"(?:ユーザー|利用者)(?:に|から)(?:拒否|否定|訂正|却下)された",
        r"べきだった|(?:前回|先ほど)の(?:回答|変更|修正)は(?:間違|誤)",
    ),
)
"""Said by somebody who was told off: right where the user's own question already tells off."""

DISPLEASED = Phrases(
    en=(
        r"^\W*(?:no|nope|wrong)\s*(?:[,.!;:–—-]|not|that|I)|that['’]?s (?:wrong|not)|not what I|not like that",
        r"I (?:told you|only asked|asked you|said not)|you (?:broke|forgot|changed|deleted|removed|ignored|missed)",
    ),
    de=(
        r"^\W*(?:nein|falsch|halt)\s*[,.!;:–—-]|so nicht|nicht so|schon wieder|hatte ich (?:dir )?(?:doch )?gesagt",
        r"du hast",
    ),
    fr=(r"^\W*(?:non|faux)\s*[,.!;:–—-]|pas (?:ça|comme ça)|c['’]est faux|je t['’]avais dit|tu (?:n['’])?as",),
    es=(r"^\W*no\s*[,.!;:–—-]|eso no|está mal|te (?:dije|pedí)|así no",),
    zh=(r"^\W*(?:不[，。！,.!]|不对|错了)|不是这样|我说过",),
    ja=(r"^\W*(?:いや|いいえ|違)|違います|と言った",),
)
"""A message that tells off."""

CALLED_BACK = Phrases(
    en=(
        r"(?:stop|wait)[,.!]|you (?:should|shouldn['’]t|did not|didn['’]t|were)",
        r"undo|revert|roll ?back|do(?:n['’]t| not) want",
    ),
    de=(r"rückgängig|habe ich (?:doch|nicht)|wollte ich nicht",),
    fr=(r"annule|reviens en arrière|je ne voulais pas",),
    es=(r"deshaz|no quería|revierte",),
    zh=(r"撤销|恢复原来",),
    ja=(r"元に戻して|取り消して",),
)
"""A question that wants something undone."""
