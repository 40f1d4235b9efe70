"""Marks: what a reasoning may not be made of: control tokens of chat templates, and characters that are no text.

What a tokenizer spells whole differs from model to model, and a row outlives the student that it was made for: the
spellings of every family of templates are refused, `<s>` of Llama and Mistral too, which HTML knows as well.
"""

import re
from collections.abc import Iterator

_NAMES = (
    r"think(?:ing)?|thought|tool_calls?|tool_responses?|tool_results?|tool_outputs?|tools|function_calls?"
    r"|function_results?|arg_key|arg_value|TOOL_?CALL|AVAILABLE_TOOLS|s|bos|eos|pad|unk|sop|eop|start_of_turn|end_of_turn"
    r"|start_of_image|end_of_image|image_soft_token|[A-Z]+_OF_TURN_TOKEN|(?:BOS|EOS|PAD|UNK)_TOKEN|SPECIAL_\d+"
    r"|extra_id_\d+|unused_?\d*|fim[_-](?:prefix|middle|suffix|pad)|file_sep|repo_name|(?:seed|minimax):\w+"
    r"|[a-z]+:tool_call"
)
_BRACKETED = (
    r"INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS?|TOOL_RESULTS?|TOOL_CONTENT|CALL_ID|ARGS|THINK|[gs]?MASK"
    r"|BOS|EOS|EOT|PAD|UNK"
)
_CONTROL = re.compile(
    r"<\|[^<>|\s]{1,60}\|>"  # ChatML, Llama 3, gpt-oss, Kimi, GLM, Phi, Cohere
    r"|<\|/?\w+>|<\w+\|>"  # Gemma 4
    r"|</?[｜|][^<>\n]{0,60}[｜|]\w*>|<｜|｜DSML｜|</?dsml:"  # DeepSeek
    rf"|</?(?:{_NAMES})/?>"  # Qwen, GLM, Nemotron, Gemma 2 and 3, Mistral
    r"|</?(?:function|parameter|invoke)=[^<>\n]*>|</(?:function|parameter)>"  # Qwen coder
    rf"|\[/?(?:{_BRACKETED})\]"  # Llama 2, Mistral, Kimi, GLM
    r"|<</?SYS>>|\[\|\w+\|\]"  # Llama 2, EXAONE
    r"|◁/?\w+▷"  # Kimi VL
    r"|\]~!?b?\[|\]~b\]|\[e~\["  # MiniMax
    r"|(?<![\w/.])/no_?think\b"  # switches of Qwen and GLM
)
_LETTERS = re.compile(r"\w+")
_NOT_TEXT = re.compile(
    "[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff"
    "\ud800-\udfff\ue000-\uf8ff\U000e0000-\U000e001f\U000f0000-\U0010ffff]|\r(?!\n)"
)


def control_tokens(text: str) -> Iterator[tuple[int, str]]:
    """Where a text spells a control token, and the letters of it, which spell none."""
    for match in _CONTROL.finditer(text):
        yield match.start(), " ".join(_LETTERS.findall(match.group())) or "one"


def not_text(text: str) -> Iterator[tuple[int, str]]:
    """Where a character is none of a text, and its number (`U+001B`)."""
    return ((match.start(), f"U+{ord(match.group()):04X}") for match in _NOT_TEXT.finditer(text))
