"""Samplers: the sets of weights that are sampled from, and the batch that decodes with each.

A set of weights is the base model or a checkpoint as it was on disk at one moment (`Source`). An adapter is applied
beside the base's weights, which all share; many are kept. Everything here runs on the model thread.
"""

import contextlib
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from machine.engine import checkpoints
from machine.engine.checkpoints import CheckpointFiles, CheckpointPath, Checkpoints
from machine.engine.faults import Fault
from machine.engine.models.llama import Llama
from machine.engine.models.lora import Lora
from machine.engine.sampling import passes
from machine.engine.sampling.decoding import MAX_BATCH, Decoder
from machine.engine.sampling.passes import Pass, for_decoding
from machine.engine.sampling.prefixes import PrefixCache
from machine.engine.work.futures import CANCELLED, failure, is_out_of_memory
from machine.engine.work.scheduling import Job, More, attempt

BASE = "base"
"""The fingerprint of the weights that no adapter changed."""
ADAPTER_BYTES = 2**30
"""Memory for adapters that are kept; one of rank 32 for SmolLM2-135M needs 88 MiB."""
SLOW_SECONDS = 5.0
"""From when on it is logged how long the kernels took to compile."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """Weights to sample from: the base (`path` None) or a checkpoint as it is on disk at this moment."""

    path: CheckpointPath | None
    version: tuple[int, int] = (0, 0)


@dataclass(eq=False)
class _Batch:
    decoder: Decoder
    jobs: list[Job] = field(default_factory=list)


class Samplers:
    """The batches under way; `step` is a `scheduling.Sampler`."""

    def __init__(self, model: Llama, store: Checkpoints, detokenize: Callable[[list[int]], str]) -> None:
        self.model, self.store, self.detokenize = model, store, detokenize
        self._batches: dict[Source, _Batch] = {}
        self._base: Pass | None = None
        self._adapted: OrderedDict[Source, tuple[Pass, str]] = OrderedDict()
        self._prefixes = PrefixCache()

    def prepare(self) -> None:
        """Has the kernels ready before the first request needs them; a failure is left for that request to meet."""
        if not passes.compiles(self.model):
            return
        began = time.monotonic()
        try:
            passes.prepare()
        except Exception:  # the boundary between the kernels and the engine's life: training needs none
            _log.exception("the decoding kernels could not be compiled")
        if (seconds := time.monotonic() - began) > SLOW_SECONDS:
            _log.info("compiled the decoding kernels in %.0f s; they are kept", seconds)

    def step(self, group: Hashable, more: More) -> bool:
        """Draws a token for every sequence of a source, after letting in the jobs that there is room for."""
        assert isinstance(group, Source)
        batch = self._batches.get(group)
        running = [] if batch is None else batch.jobs
        room = MAX_BATCH - (0 if batch is None else batch.decoder.active)
        jobs = more(room, {job.future.owner for job in running})
        try:
            if batch is None:
                batch = self._batches[group] = _Batch(Decoder(*self._loaded(group), self._prefixes, self.detokenize))
            batch.jobs += [job for job in jobs if _admitted(batch.decoder, job)]
            batch.decoder.step()
        except Exception as error:  # the boundary between these requests and the engine's life
            self._batches.pop(group, None)
            for job in {*running, *jobs}:
                if job.future.answer is None:
                    job.future.resolve(failure(error, job.future.id))
            return False
        for job in [job for job in batch.jobs if job.request is not None and job.request.done]:
            batch.jobs.remove(job)
            failed = job.request.error if job.request is not None else None
            job.future.resolve(attempt(job) if failed is None else failure(failed, job.future.id))
        if not batch.jobs:
            del self._batches[group]
        return bool(batch.jobs)

    def _loaded(self, source: Source) -> tuple[Pass, str]:
        """A source's model, ready for decoding, and its fingerprint."""
        self._base = self._base or for_decoding(self.model)
        if source.path is None:
            return self._base, BASE
        if source not in self._adapted:
            files = self.store.read(source.path)
            adapter = read_adapter(self.model, source.path, files)
            self._adapted[source] = self._base.adapted(adapter), checkpoints.fingerprint(files.weights)
        self._adapted.move_to_end(source)
        while len(self._adapted) > 1 and sum(run.adapter_bytes for run, _ in self._adapted.values()) > ADAPTER_BYTES:
            _, (_, weights) = self._adapted.popitem(last=False)
            self._prefixes.drop(weights)
        return self._adapted[source]


def read_adapter(model: Llama, path: CheckpointPath, files: CheckpointFiles) -> Lora:
    """The adapter of a checkpoint.

    Raises:
        Fault: it is damaged, not an adapter of this model, or holds numbers that are not finite.
    """
    with naming(path):
        base = json.loads(files.config)["base_model_name_or_path"]
        if base != model.config.name:
            raise Fault(f"it is an adapter of {base}, not of {model.config.name}")
        lora = Lora.read(model.config, files.config, files.weights, model.device)
        for name, parameter in lora.parameters.items():
            if not bool(parameter.isfinite().all()):
                raise Fault(f"{name} holds a number that is not finite")
    return lora


@contextlib.contextmanager
def naming(path: CheckpointPath) -> Iterator[None]:
    """Turns what goes wrong with a checkpoint's content into a fault that names the checkpoint."""
    try:
        yield
    except Fault as fault:
        raise Fault(f"path: {path} cannot be used: {fault.message}", next_step=fault.next_step) from fault
    except Exception as error:  # JSON and safetensors fail in many ways on what is not theirs
        if is_out_of_memory(error):
            raise
        raise Fault(f"path: {path} is damaged ({type(error).__name__}: {error})", next_step="delete it") from error


def _admitted(decoder: Decoder, job: Job) -> bool:
    assert job.request is not None
    if job.future.cancelled:
        job.future.resolve(CANCELLED)
        return False
    try:
        decoder.admit(job.request)
    except Exception as error:  # the boundary between this request and the engine's life
        job.future.resolve(failure(error, job.future.id))
        return False
    return True
