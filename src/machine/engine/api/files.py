"""Downloads: the files of a checkpoint as a PEFT adapter folder, one by one or as a tar archive.

`external_weights_urls` (the SDK, `tinker checkpoint download`) and `archive` give URLs of this engine that hold a
signed token in the key's place: they are good for a quarter of an hour, for these files as they are now, and for
nothing else. A file is opened before the answer begins, so that one that is replaced meanwhile is still sent whole.
"""

import tarfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import BinaryIO

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from machine.engine.api.tokens import DOWNLOAD, Tokens
from machine.engine.api.web import CHECKPOINT, checkpoint_of, engine_of
from machine.engine.checkpoints import CONFIG, WEIGHTS, CheckpointPath
from machine.engine.faults import Gone

GOOD_FOR = timedelta(minutes=15)
ADAPTER = (CONFIG, WEIGHTS)
"""What PEFT loads; the optimiser's state and the engine's own notes stay here."""
ARCHIVE = "archive.tar"
_CHUNK = 1024 * 1024
_BLOCK = tarfile.BLOCKSIZE


async def external_weights_urls(request: Request) -> Response:
    """A URL for each file of a checkpoint."""
    urls, expires = _signed(request, checkpoint_of(request), ADAPTER)
    return JSONResponse({"urls": urls, "expires": expires.isoformat()})


async def archive(request: Request) -> Response:
    """Sends the client to the URL of a tar archive."""
    urls, expires = _signed(request, checkpoint_of(request), (ARCHIVE,))
    headers = {"Location": urls[ARCHIVE], "Expires": format_datetime(expires, usegmt=True)}
    return Response(status_code=302, headers=headers)


async def download(request: Request) -> Response:
    """A file, or the archive, that a signed URL names."""
    tokens: Tokens = request.app.state.tokens
    claims = tokens.read(request.path_params["token"], DOWNLOAD)
    if claims is None or claims["file"] != request.path_params["file"]:
        raise Gone("the download URL is not valid, or its time is over", next_step="ask for a new one")
    store, path = engine_of(request).checkpoints, CheckpointPath.parse(claims["path"])
    with ExitStack() as opened:
        names = ADAPTER if claims["file"] == ARCHIVE else (claims["file"],)
        files = {name: opened.enter_context(store.open(path, name)) for name in names}
        if list(store.version(path)) != claims["version"]:
            raise Gone(f"{path} has been replaced meanwhile", next_step="ask for a new URL")
        sizes = {name: _size(file) for name, file in files.items()}
        length = _tar_size(sizes) if claims["file"] == ARCHIVE else sum(sizes.values())
        content = _tar(files, sizes) if claims["file"] == ARCHIVE else _chunks(files[claims["file"]])
        headers = {"Content-Length": str(length), "Cache-Control": "no-store"}
        return StreamingResponse(_closing(content, opened.pop_all()), headers=headers, media_type=_type(claims["file"]))


def _signed(request: Request, path: CheckpointPath, names: tuple[str, ...]) -> tuple[dict[str, str], datetime]:
    """URLs by file name, on the address that the client has used, and until when they are good."""
    tokens: Tokens = request.app.state.tokens
    version = engine_of(request).checkpoints.version(path)
    urls = {}
    for name in names:
        token = tokens.sign(DOWNLOAD, GOOD_FOR.total_seconds(), path=str(path), version=version, file=name)
        urls[name] = f"{request.base_url}api/v1/downloads/{token}/{name}"
    return urls, datetime.now(UTC).replace(microsecond=0) + GOOD_FOR


def _type(name: str) -> str:
    if name == ARCHIVE:
        return "application/x-tar"
    return "application/json" if name.endswith(".json") else "application/octet-stream"


def _size(file: BinaryIO) -> int:
    size = file.seek(0, 2)
    file.seek(0)
    return size


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


def _tar(files: Mapping[str, BinaryIO], sizes: Mapping[str, int]) -> Iterator[bytes]:
    """A tar archive of the files, each a header, its bytes and zeros up to a whole block, and two blocks of zeros."""
    for name, file in files.items():
        header = tarfile.TarInfo(name)
        header.size, header.mode = sizes[name], 0o600
        yield header.tobuf(tarfile.USTAR_FORMAT)
        yield from _chunks(file)
        yield bytes(-sizes[name] % _BLOCK)
    yield bytes(2 * _BLOCK)


def _tar_size(sizes: Mapping[str, int]) -> int:
    return sum(_BLOCK + size + -size % _BLOCK for size in sizes.values()) + 2 * _BLOCK


def _closing(content: Iterator[bytes], opened: ExitStack) -> Iterator[bytes]:
    with opened:
        yield from content


routes = [
    Route(f"{CHECKPOINT}/external_weights_urls", external_weights_urls),
    Route(f"{CHECKPOINT}/archive", archive),
    Route("/api/v1/downloads/{token}/{file}", download),
]
