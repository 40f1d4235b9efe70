"""Stance: from where a reasoning speaks: after the event, about its own training, to a reader, about the agent.

Each finds the phrases of its kind, and leaves those that what was visible makes natural: a project that trains models
speaks of training, a user who told the agent off in the question may be answered, a project about agents names them.
"""

import re
from collections.abc import Iterator

from machine.correction.gates import hindsight as told
from machine.correction.gates import phrases
from machine.correction.gates.moment import Moment
from machine.correction.gates.wording import Span, Wording, sentence_starts

_SHORT_MESSAGE = 400
"""Characters. A context text up to here may be an earlier message of the user."""
_BEFORE = 40
_SKILLS = re.compile(r"<available_skills>.*?</available_skills>", re.DOTALL)


def hindsight(wording: Wording, moment: Moment) -> Iterator[Span]:
    """Phrases of somebody who knows how the turn went, or that the user did not like it."""
    yield from _unless_asked(told.LOOKING_BACK.spans(wording.prose), wording, moment)
    displeasure = list(_unless_asked(told.DISPLEASURE.spans(wording.prose), wording, moment))
    if displeasure and not _told_off(moment):
        yield from displeasure


def training(wording: Wording, moment: Moment) -> Iterator[Span]:
    """Words about the training of the agent, its data or tags, or Machine and its commands."""
    yield from _unless_asked(phrases.OWN_TRAINING.spans(wording.text), wording, moment)
    for start, end in phrases.MACHINE.spans(wording.text):
        phrase = wording.text[start:end]
        name = "Machine" if "Machine" in phrase else phrase
        if not any(name in text for text in _visible(moment)) and name.lower() not in moment.question.lower():
            yield start, end
    words = list(phrases.TRAINING.spans(wording.prose))
    if words and not any(phrases.ABOUT_TRAINING.are_in(text) for text in _visible(moment)):
        said = "\n".join(_visible(moment)).lower()
        yield from (span for span in words if wording.text[slice(*span)].lower() not in said)


def instruction(wording: Wording, moment: Moment) -> Iterator[Span]:
    """Phrases that tell somebody what to do."""
    spoken = [
        span
        for span in phrases.INSTRUCTION.spans(wording.prose)
        if not phrases.REPORTED.search(wording.prose[max(0, span[0] - _BEFORE) : span[0]])
    ]
    command = phrases.COMMAND.pattern
    begun = [match.span() for at in sentence_starts(wording.prose) if (match := command.match(wording.prose, at))]
    yield from _unless_asked(iter(dict.fromkeys(sorted([*spoken, *begun]))), wording, moment)


def narrator(wording: Wording, moment: Moment) -> Iterator[Span]:
    """Phrases that speak of the agent as of somebody else."""
    for start, end in phrases.NARRATOR.spans(wording.prose):
        name = phrases.NARRATED.search(wording.text, start, end)
        if name is None or not _is_about(name.group(), moment):
            yield start, end


def _is_about(name: str, moment: Moment) -> bool:
    """Whether question or context use the word; a system prompt's "you are an assistant" doesn't count."""
    stem = re.compile(rf"(?<!\w){re.escape(name)}s?(?!\w)" if name.isascii() else re.escape(name), re.IGNORECASE)
    return any(stem.search(text) for text in (moment.question, *moment.context[1:]))


def _told_off(moment: Moment) -> bool:
    messages = [text for text in moment.context[1:] if len(text) <= _SHORT_MESSAGE]
    return told.CALLED_BACK.are_in(moment.question) or any(
        told.DISPLEASED.are_in(text) for text in (moment.question, *messages)
    )


def _visible(moment: Moment) -> Iterator[str]:
    """Context and question, without the list of skills: Machine's own skills speak of training to everybody."""
    yield moment.question
    yield from (_SKILLS.sub("", text) if "<available_skills>" in text else text for text in moment.context)


def _unless_asked(spans: Iterator[Span], wording: Wording, moment: Moment) -> Iterator[Span]:
    """Those whose words are not the question's own."""
    for start, end in spans:
        phrase = " ".join(wording.text[start:end].split()).strip(" .,:;!?").lower()
        if phrase not in " ".join(moment.question.split()).lower():
            yield start, end
