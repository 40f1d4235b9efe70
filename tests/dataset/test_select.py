import pytest

from machine.dataset.select import good_rows, rows_of
from machine.errors import Refused
from machine.store.pool import Pool
from machine.trace import encode
from students import questions


def test_only_good_rows_of_the_pool(tmp_path):
    pool = Pool(tmp_path / "store" / "traces.jsonl")
    with pytest.raises(Refused, match="no good rows"):
        good_rows(pool)
    first, second = questions(2)
    pool.append(first)
    pool.append(type(second)(**{f: getattr(second, f) for f in second.__struct_fields__} | {"tag": "bad"}))
    assert [r.id for r in good_rows(pool)] == [first.id]


def test_a_file_of_rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(encode(r) for r in questions(3)) + b"\n\n")
    assert len(rows_of(path)) == 3


@pytest.mark.parametrize("line", [b"not json", b'{"messages": []}', b"\xff\xfe"])
def test_a_file_that_is_not_rows_names_file_and_line(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(encode(questions(1)[0]) + b"\n" + line + b"\n")
    with pytest.raises(Refused, match=r"rows\.jsonl line 2 is not a row") as refused:
        rows_of(path)
    assert refused.value.next_step


def test_a_target_must_be_an_assistant_message(tmp_path):
    path = tmp_path / "rows.jsonl"
    row = questions(1)[0]
    path.write_bytes(encode(row).replace(b'"target":[2]', b'"target":[1]') + b"\n")
    with pytest.raises(Refused, match="line 1: target 1 is not an assistant message"):
        rows_of(path)


def test_no_such_file(tmp_path):
    with pytest.raises(Refused, match="No such file"):
        rows_of(tmp_path / "absent.jsonl")
