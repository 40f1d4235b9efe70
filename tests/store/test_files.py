from machine.store.files import append_line


def test_what_a_crash_left_of_a_line_is_cut_off_and_whole_lines_stay(tmp_path):
    log = tmp_path / "log.jsonl"
    for left in (b"", b"one\n", b"one\ntwo\nthr", b"x" * 70000 + b"\n" + b"y" * 70000, b"z" * 70000):
        log.write_bytes(left)
        append_line(log, b"new", cut_torn=True)
        assert log.read_bytes() == left[: left.rfind(b"\n") + 1] + b"new\n"
