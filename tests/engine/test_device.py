import subprocess
import sys

import pytest
import torch

from machine.engine.models import device
from machine.engine.models.llama import Llama
from machine.engine.models.lora import Lora
from machine.engine.sampling.passes import for_decoding
from machine.engine.training.losses import Loss
from machine.engine.training.packing import SegmentAttention
from machine.engine.training.trainer import Datum, forward_backward
from machine.errors import UsageError

CPU = torch.device("cpu")
ROW = [5, 6, 7, 8, 9, 10]


def test_auto_takes_a_gpu_that_torch_sees():
    assert device.choose().type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert device.choose("cpu") == CPU


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match="--device cuda"):
        device.choose("cuda")
    command = [sys.executable, "-m", "machine.engine.server", "--model", "any", "--state", "any", "--device", "cuda"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "torch sees no such device here" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_tensor_is_made_on_the_models_device(each_folder):
    """With another default device, whatever is made without naming one does not fit the others."""
    row, positions = torch.tensor(ROW), torch.arange(len(ROW))
    with torch.device("meta"):
        model = Llama.load(each_folder, device=CPU)
        lora = Lora.new(model.config, 4, 0, device=CPU)
        adapted = model.forward(row, positions, SegmentAttention([len(ROW)]), lora)
        model.logits(adapted, lora).logsumexp(-1).sum().backward()
        again = Lora.read(model.config, lora.config_file("x"), lora.weights_file(), CPU)
        compiled = for_decoding(model).adapted(again).hidden(row, positions, SegmentAttention([len(ROW)]))
    assert {model.device, adapted.device, compiled.device} == {CPU}
    assert {parameter.grad.device for parameter in lora.parameters.values()} == {CPU}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
def test_training_on_a_gpu_equal_the_cpu(tiny_folder):
    outcomes = []
    for place in (CPU, torch.device("cuda")):
        model = Llama.load(tiny_folder, device=place)
        lora = Lora.new(model.config, 4, 0, device=place)
        data = [Datum(ROW[:-1], torch.tensor(ROW[1:]), {"weights": torch.ones(5)})]
        outcomes.append(forward_backward(model, lora, data, Loss("cross_entropy", {}), backward=True))
        assert {parameter.grad.device.type for parameter in lora.parameters.values()} == {place.type}
    assert outcomes[0].loss == pytest.approx(outcomes[1].loss, rel=1e-4)
