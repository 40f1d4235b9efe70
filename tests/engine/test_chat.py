import hashlib
import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from machine.engine.work.intake import Limits
from machine.renderers import CHATML, get_renderer, load_tokenizer, to_conversation

FRANCE = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "What is the capital of France?"},
]
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "strict": False,
    },
}


def events(engine, kind="chat/completions", **fields):
    """The decoded events of a streamed answer; the last one is the word [DONE]."""
    connection = http.client.HTTPConnection(engine.url.removeprefix("http://"), timeout=60)
    body = {"model": engine.model, "temperature": 0, "max_tokens": 24, "stream": True} | fields
    headers = {"Authorization": f"Bearer {engine.key}", "Content-Type": "application/json"}
    connection.request("POST", f"/oai/api/v1/{kind}", json.dumps(body), headers)
    lines = connection.getresponse().read().decode().split("\n\n")
    data = [line.removeprefix("data: ") for line in lines if line]
    assert data.pop() == "[DONE]"
    return [json.loads(line) for line in data]


def test_an_answer(engine):
    status, body = engine.chat(messages=FRANCE)
    [choice] = body["choices"]
    assert (status, choice["finish_reason"]) == (200, "stop")
    assert "Paris" in choice["message"]["content"]
    assert "<|im_end|>" not in choice["message"]["content"]
    assert (body["model"], body["system_fingerprint"]) == (engine.model, "base")
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + body["usage"]["completion_tokens"]


@pytest.mark.parametrize("tools", [[], [TOOL]])
def test_prompt_tokens_equal_those_of_training(engine, tools):
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
    messages = [
        {"role": "developer", "content": "You are brief."},
        {"role": "user", "content": [{"type": "text", "text": "Is it "}, {"type": "text", "text": "cold in Oslo?"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "-5 degrees"},
    ]
    renderer = get_renderer(CHATML, load_tokenizer(str(engine.model_path)))
    row = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Is it cold in Oslo?"}]
    row += [{"role": "assistant", "content": "", "tool_calls": [call]}, messages[3] | {"name": "weather"}]
    bare = [{key: tool["function"][key] for key in ("parameters", "name", "description")} for tool in tools]
    expected = renderer.build_generation_prompt(to_conversation(renderer, row, bare)).to_ints()
    assert to_conversation(renderer, messages, tools) == to_conversation(renderer, row, bare)
    assert engine.chat(messages=messages, tools=tools)[1]["usage"]["prompt_tokens"] == len(expected)


def test_a_stream_says_the_same_as_the_whole(engine):
    whole = engine.chat(messages=FRANCE)[1]
    chunks = events(engine, messages=FRANCE, stream_options={"include_usage": True})
    usage = chunks.pop()
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], whole["usage"]["completion_tokens"])
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("content", "") for delta in deltas) == whole["choices"][0]["message"]["content"]
    assert len(deltas) > 4
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert {chunk["system_fingerprint"] for chunk in chunks[1:]} == {"base"}


def test_stop_texts_are_cut_off(engine):
    whole = engine.chat(messages=FRANCE)[1]["choices"][0]["message"]["content"]
    body = engine.chat(messages=FRANCE, stop=["Paris"])[1]["choices"][0]
    assert body["message"]["content"] == whole[: whole.index("Paris")]
    assert body["finish_reason"] == "stop"
    chunks = events(engine, messages=FRANCE, stop="Paris")
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == whole[: whole.index("Paris")]


def test_same_seed_same_answer_and_length_is_told(engine):
    ask = {"messages": FRANCE, "temperature": 1.5, "max_tokens": 8}
    answers = [engine.chat(**ask, seed=seed)[1]["choices"][0] for seed in (1, 1, 2)]
    assert answers[0] == answers[1] != answers[2]
    assert engine.chat(messages=FRANCE, max_tokens=2)[1]["choices"][0]["finish_reason"] == "length"


def test_a_checkpoint_answers_under_its_own_name_and_fingerprint(engine):
    from tinker import ServiceClient

    client = ServiceClient(base_url=engine.url, api_key=engine.key)
    trainer = client.create_lora_training_client(engine.model, rank=4).result()
    path = trainer.save_weights_for_sampler("chat").result().path
    weights = engine.home / "checkpoints" / path.removeprefix("tinker://") / "adapter_model.safetensors"
    for model in (path, f"{engine.model};{path}"):
        body = engine.chat(model=model, messages=FRANCE)[1]
        assert body["model"] == path
        assert body["system_fingerprint"] == hashlib.sha256(weights.read_bytes()).hexdigest()
    listed = engine.request("GET", "/oai/api/v1/models")[1]["data"]
    assert {engine.model, path} <= {model["id"] for model in listed}
    client.close("success").result()


def test_a_tool_call_comes_out_as_openai_sends_it(engine):
    """The model is taught one call; whole and streamed it has the same name and arguments."""
    from tinker_cookbook.supervised.data import conversation_to_datum

    from tinker import AdamParams, ServiceClient

    asked = [{"role": "user", "content": "Is it cold in Oslo?"}]
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    renderer = get_renderer(CHATML, load_tokenizer(str(engine.model_path)))
    row = [*asked, {"role": "assistant", "content": "", "tool_calls": [call]}]
    datum = conversation_to_datum(to_conversation(renderer, row, [TOOL]), renderer, 1024)
    client = ServiceClient(base_url=engine.url, api_key=engine.key)
    trainer = client.create_lora_training_client(engine.model, rank=8, seed=0).result()
    for _ in range(6):
        trainer.forward_backward([datum], "cross_entropy")
        trainer.optim_step(AdamParams(learning_rate=3e-3))
    path = trainer.save_weights_for_sampler("tools").result().path
    ask = {"model": path, "messages": asked, "tools": [TOOL], "max_tokens": 40}
    [choice] = engine.chat(**ask)[1]["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == ""
    [made] = choice["message"]["tool_calls"]
    assert (made["type"], made["function"]["name"]) == ("function", "weather")
    assert json.loads(made["function"]["arguments"]) == {"city": "Oslo"}
    deltas = [chunk["choices"][0]["delta"] for chunk in events(engine, **ask)]
    assert "".join(delta.get("content", "") for delta in deltas) == ""
    [streamed] = [each for delta in deltas for each in delta.get("tool_calls", [])]
    assert (streamed["index"], streamed["function"]) == (0, made["function"])
    client.close("success").result()


def test_several_choices_with_their_scores(engine):
    body = engine.chat(messages=FRANCE, n=3, temperature=1.0, seed=5, max_tokens=6, logprobs=True, top_logprobs=2)[1]
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    assert body["usage"]["completion_tokens"] <= 18
    for choice in body["choices"]:
        scores = choice["logprobs"]["content"]
        assert "".join(score["token"] for score in scores) == choice["message"]["content"]
        assert all(score["bytes"] == list(score["token"].encode()) for score in scores)
        assert all(score["logprob"] <= score["top_logprobs"][0]["logprob"] + 1e-5 for score in scores)
    assert engine.chat(messages=FRANCE)[1]["choices"][0]["logprobs"] is None


def test_a_stream_tells_the_same_scores(engine):
    ask = {"messages": FRANCE, "logprobs": True, "stop": [" Paris"], "max_tokens": 10}
    whole = engine.chat(**ask)[1]["choices"][0]["logprobs"]["content"]
    chunks = [chunk["choices"][0] for chunk in events(engine, **ask)]
    streamed = [score for chunk in chunks for score in (chunk.get("logprobs") or {"content": []})["content"]]
    assert streamed == whole
    assert [score["token"] for score in whole] == ["The", " capital", " of", " France", " is"]


def test_top_k_of_one_is_greedy_at_any_temperature(engine):
    greedy, drawn = (engine.chat(messages=FRANCE, **how)[1] for how in ({}, {"temperature": 2, "top_k": 1}))
    assert drawn["choices"] == greedy["choices"]


@pytest.mark.parametrize("prompt", ["The capital of France is", ["The capital of France is"], None])
def test_a_plain_completion(engine, prompt):
    tokens = load_tokenizer(str(engine.model_path)).encode("The capital of France is")
    ask = {"model": engine.model, "prompt": prompt or tokens, "max_tokens": 3, "temperature": 0, "logprobs": 1}
    status, body = engine.request("POST", "/oai/api/v1/completions", ask)
    [choice] = body["choices"]
    assert (status, choice["text"], choice["finish_reason"]) == (200, " Paris.\n", "length")
    assert choice["logprobs"]["text_offset"] == [0, 6, 7]
    assert choice["logprobs"]["top_logprobs"][0].keys() == {" Paris"}
    chunks = [chunk["choices"][0] for chunk in events(engine, "completions", **ask)]
    assert "".join(chunk["text"] for chunk in chunks) == choice["text"]
    assert chunks[-1]["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"prompt": ["a", "b"]}, "prompt"), ({"prompt": []}, "prompt"), ({"prompt": [10**6]}, "1000000"),
     ({"prompt": "a", "echo": True}, "echo"), ({"prompt": "a", "best_of": 3}, "best_of")],
)  # fmt: skip
def test_completions_that_cannot_be_done(engine, fields, words):
    status, body = engine.request("POST", "/oai/api/v1/completions", {"model": engine.model} | fields)
    assert (status, words in body["error"]["message"]) == (400, True)


@pytest.mark.parametrize("stream", [False, True])
def test_a_full_queue_is_told_as_openai_tells_it(api, monkeypatch, stream):
    futures = api.app.state.engine.futures
    monkeypatch.setattr(futures, "limits", Limits(open=0))
    ask = {"model": api.app.state.engine.name, "messages": FRANCE, "stream": stream}
    answer = api.post("/oai/api/v1/chat/completions", json=ask)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "2")
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"messages": [{"role": "user", "content": "word " * 9000}]}, 400, "maximum context length is 8192 tokens"),
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, 400, "wizard"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, 400, "image"),
        ({"messages": [{"role": "user", "content": 7}]}, 400, "malformed"),
        ({"messages": FRANCE, "model": "gpt-5"}, 404, "gpt-5"),
        ({"messages": FRANCE, "model": "tinker://a/sampler_weights/../../x"}, 400, "tinker://"),
        ({"messages": FRANCE, "temperature": -1}, 400, "temperature"),
        ({"messages": FRANCE, "n": 2, "stream": True}, 400, "n: a stream"),
        ({"messages": FRANCE, "n": 1000}, 400, "n"),
        ({"messages": FRANCE, "top_logprobs": 2}, 400, "top_logprobs"),
        ({"messages": FRANCE, "tool_choice": "required"}, 400, "tool_choice"),
        ({"messages": FRANCE, "response_format": {"type": "json_object"}}, 400, "response_format"),
        ({"messages": FRANCE, "presence_penalty": 0.5}, 400, "presence_penalty"),
    ],
)
def test_faults_are_in_openais_form(engine, fields, status, words):
    given, body = engine.chat(**fields)
    assert given == status
    assert words in body["error"]["message"]
    assert body["error"]["type"] == "invalid_request_error"


def test_overflow_has_openais_code(engine):
    body = engine.chat(messages=[{"role": "user", "content": "word " * 9000}])[1]
    assert body["error"]["code"] == "context_length_exceeded"


def test_hanging_up_frees_the_slot(engine):
    """An answer of 1,000 tokens takes half a minute: a client that leaves must not make the next one wait for it."""
    address = engine.url.removeprefix("http://")
    for stream in (True, False):
        connection = http.client.HTTPConnection(address, timeout=60)
        messages = [{"role": "user", "content": "Write a very long story about a king."}]
        body = {"model": engine.model, "messages": messages, "max_tokens": 1000, "stream": stream, "temperature": 2}
        headers = {"Authorization": f"Bearer {engine.key}", "Content-Type": "application/json"}
        connection.request("POST", "/oai/api/v1/chat/completions", json.dumps(body), headers)
        time.sleep(0.5)
        connection.close()
    # A job of another kind runs only when the batch that is being decoded has ended.
    began = time.monotonic()
    _, session = engine.request("POST", "/api/v1/create_session", {})
    model = {"session_id": session["session_id"], "model_seq_id": 0, "base_model": engine.model}
    _, created = engine.request("POST", "/api/v1/create_model", model)
    assert engine.request("POST", "/api/v1/retrieve_future", {"request_id": created["request_id"]})[0] == 200
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "call", [{"id": 5, "function": {"name": "x", "arguments": "{}"}}, {"function": {"name": 5}}, {"function": 5}, 5]
)
def test_a_malformed_call_is_the_clients_fault(engine, call):
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [call]}]
    status, body = engine.chat(messages=messages)
    assert (status, "malformed" in body["error"]["message"]) == (400, True)


def test_many_prompts_at_once_are_each_made_tokens(api):
    """No tokenizer serves two threads: it raises "Already borrowed"."""
    model = api.get("/oai/api/v1/models").json()["data"][0]["id"]

    def ask(i):
        given = {"model": model, "max_tokens": 1, "temperature": 0, "stop": ["\n"]}
        if i % 3:
            messages = [{"role": "user", "content": f"number {i} of {j}"} for j in range(9)]
            return api.post("/oai/api/v1/chat/completions", json=given | {"messages": messages}).status_code
        return api.post("/oai/api/v1/completions", json=given | {"prompt": f"number {i} " * 40}).status_code

    with ThreadPoolExecutor(40) as crowd:
        assert set(crowd.map(ask, range(60))) == {200}
