"""Gates: whether a reasoning is fit to be learnt, whoever wrote it.

An approved reasoning is trained as the agent's own first thought of a turn. So it may hold only what was visible then,
in the agent's own voice, and nothing that shouldn't come back out of a model. A finding names its rule and says what
and where; it never shows a secret, an address of a person or what the observed model thought, and spells no control
token, so that it may be given to a model.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from machine.correction.gates import language, marks, overlap, personal, stance, substance
from machine.correction.gates.moment import Finding, Moment
from machine.correction.gates.overlap import Visible
from machine.correction.gates.wording import Span, Wording
from machine.privacy.redact import redacted

__all__ = ["RULES", "Finding", "Moment", "check"]

_SHOWN = 3
"""Places that a finding names."""


def check(reasoning: str, moment: Moment) -> list[Finding]:
    """The gates that a reasoning fails, each once, in the order of `RULES`; none: it is fit.

    Needs no network and no model; identifies languages with the weights of a library.
    """
    clean, secrets = redacted(reasoning, moment.sources)
    visible = Visible(moment)
    copied = list(overlap.quotations(Wording(clean), moment.observed, visible, overlap.HIDDEN))
    wording = Wording(clean, copied, [*personal.home_folders(clean), *personal.emails(clean)])
    if not wording.text.strip():
        return [Finding("length", substance.wrong_length(wording) or "")]
    reasons: dict[str, str | None] = {rule: test(wording, moment, visible) for rule, test in _TESTS.items()}
    if secrets:
        kinds = ", ".join(dict.fromkeys(finding.rule for finding in secrets))
        reasons["secret"] = f"holds a secret ({kinds})"
    return [Finding(rule, reason) for rule in RULES if (reason := reasons.get(rule))]


RULES: Mapping[str, str] = {
    "hindsight": "Speaks from after the turn: how it ended, that the user did not like it, what the right answer is.",
    "quotes-correction": "Repeats the user's correction, or knows something only from there.",
    "quotes-answer": "Gives the wanted answer away in its own words, or knows something only from there.",
    "quotes-later": "Repeats answers, calls or tool results of the turn, which nobody could see when it was decided.",
    "hidden-reasoning": "Copies the hidden reasoning of the observed model.",
    "meta": "Speaks of training, tags, datasets, Machine or its commands.",
    "secret": "Holds a secret.",
    "personal-path": "Names somebody's home folder.",
    "personal-email": "Names somebody's e-mail address.",
    "instruction": "Tells a reader what to do.",
    "voice": "Speaks of the agent as of somebody else.",
    "language": "Is in another language than the user's question.",
    "length": "Is too short to be a reasoning, or too long for a short one.",
    "empty": "Only repeats the question, or would fit any question.",
    "control-token": "Spells a control token of a chat template.",
    "not-text": "Holds control characters or others that are no text.",
}
"""What each rule stands for."""

_Test = Callable[[Wording, Moment, Visible], str | None]


def _hindsight(wording: Wording, moment: Moment, visible: Visible) -> str | None:
    return _at(wording, stance.hindsight(wording, moment), "speaks from after the turn")


def _quotes_correction(wording: Wording, moment: Moment, visible: Visible) -> str | None:
    return _quotes(wording, [moment.correction], visible, overlap.CORRECTION, "the user's correction")


def _quotes_answer(wording: Wording, moment: Moment, visible: Visible) -> str | None:
    return _quotes(wording, [moment.answer], visible, overlap.ANSWER, "the wanted answer")


def _quotes_later(wording: Wording, moment: Moment, visible: Visible) -> str | None:
    return _quotes(wording, moment.later, visible, overlap.LATER, "what came later in the turn")


def _hidden_reasoning(wording: Wording, moment: Moment, visible: Visible) -> str | None:
    return _at(wording, wording.copied, "copies the hidden reasoning of the observed model")


def _meta(wording: Wording, moment: Moment, visible: Visible) -> str | None:
    return _at(wording, stance.training(wording, moment), "speaks of training, tags or Machine")


def _personal_path(wording: Wording, moment: Moment, visible: Visible) -> str | None:
    return _places(personal.home_folders(wording.text), "names somebody's home folder; `~` says it too")


def _personal_email(wording: Wording, moment: Moment, visible: Visible) -> str | None:
    return _places(personal.emails(wording.text), "names somebody's e-mail address")


def _instruction(wording: Wording, moment: Moment, visible: Visible) -> str | None:
    return _at(wording, stance.instruction(wording, moment), "tells a reader what to do")


def _voice(wording: Wording, moment: Moment, visible: Visible) -> str | None:
    return _at(wording, stance.narrator(wording, moment), 'speaks of the agent as of somebody else, not as "I"')


def _language(wording: Wording, moment: Moment, visible: Visible) -> str | None:
    differ = language.mismatch(wording, moment.question)
    return None if differ is None else f"is in {differ[0]}, the question in {differ[1]}"


def _length(wording: Wording, moment: Moment, visible: Visible) -> str | None:
    return substance.wrong_length(wording)


def _empty(wording: Wording, moment: Moment, visible: Visible) -> str | None:
    return None if wording.weight < substance.FEWEST else substance.emptiness(wording, moment.question)


def _control_token(wording: Wording, moment: Moment, visible: Visible) -> str | None:
    found = [f"{name} at character {at + 1}" for at, name in islice(marks.control_tokens(wording.text), _SHOWN)]
    return f"spells a control token of a chat template: {', '.join(found)}" if found else None


def _not_text(wording: Wording, moment: Moment, visible: Visible) -> str | None:
    found = [f"{name} at character {at + 1}" for at, name in islice(marks.not_text(wording.text), _SHOWN)]
    return f"holds characters that are no text: {', '.join(found)}" if found else None


_TESTS: Mapping[str, _Test] = {
    "hindsight": _hindsight,
    "quotes-correction": _quotes_correction,
    "quotes-answer": _quotes_answer,
    "quotes-later": _quotes_later,
    "hidden-reasoning": _hidden_reasoning,
    "meta": _meta,
    "personal-path": _personal_path,
    "personal-email": _personal_email,
    "instruction": _instruction,
    "voice": _voice,
    "language": _language,
    "length": _length,
    "empty": _empty,
    "control-token": _control_token,
    "not-text": _not_text,
}


def _quotes(wording: Wording, source: Iterable[str], visible: Visible, bounds: overlap.Bounds, what: str) -> str | None:
    source = [text for text in source if text]
    said = _at(wording, overlap.quotations(wording, source, visible, bounds), f"repeats {what}")
    return said or _at(wording, overlap.facts(wording, source, visible), f"knows only from {what}")


def _at(wording: Wording, spans: Iterable[Span], what: str) -> str | None:
    """What is wrong and the first places; None where there are none."""
    quotes = list(dict.fromkeys(wording.quoted(*span) for span in islice(spans, _SHOWN)))
    return f"{what}: {', '.join(quotes)}" if quotes else None


def _places(spans: Iterator[Span], what: str) -> str | None:
    """The same for what is not shown."""
    places = [str(start + 1) for start, _ in islice(spans, _SHOWN)]
    return f"{what} (character {', '.join(places)})" if places else None
