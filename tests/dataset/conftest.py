import pytest

from students import byte_student


@pytest.fixture(scope="session")
def student(tmp_path_factory):
    return byte_student(tmp_path_factory.mktemp("bytes"))
