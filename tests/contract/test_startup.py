"""Start-up: what the device adds to `import torch`, autoload and its off switch, bad values."""

from __future__ import annotations

import os
import subprocess
import sys

from fresh_process import child_environment

SCRIPT = """
import torch
import trnsim
trnsim._autoload()
import sys
print(sorted(m for m in ("torch._dynamo", "torch._inductor", "jax", "typer", "rich", "sympy") if m in sys.modules))
"""


def plain(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**child_environment(), **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_start_up_imports_nothing_heavy():
    """The time itself is measured by benchmarks/bench_start.py."""
    done = plain(SCRIPT, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_autoload_twice_is_once(run_python):
    run_python("trnsim._autoload(); trnsim._autoload(); assert torch.ones(1, device='neuron').item() == 1")


def test_version_and_environment(run_python):
    done = run_python("print(trnsim.__version__)")
    assert done.stdout.count(".") == 2


def test_bad_environment_value_is_explained_at_import(run_python):
    done = run_python("", check=False, TRNSIM_FALLBACK="maybe")
    assert done.returncode != 0
    for word in ("TRNSIM_FALLBACK", "maybe", "warn", "allow", "error"):
        assert word in done.stderr


def test_unknown_instance_is_explained(run_python):
    done = run_python("", check=False, TRNSIM_INSTANCE="trn9.nano")
    assert done.returncode != 0
    for word in ("TRNSIM_INSTANCE", "trn9.nano", "trn2.3xlarge"):
        assert word in done.stderr


def test_no_output_at_import(run_python):
    done = run_python("torch.ones(1, device='neuron')")
    assert done.stdout == "" and done.stderr == ""


def test_exit_is_clean_with_live_tensors(run_python):
    done = run_python(
        """
        import atexit
        keep = torch.ones(1000, device="neuron", requires_grad=True)
        stream = torch.neuron.Stream()
        event = stream.record_event()
        atexit.register(lambda: print(keep.sum().item()))
        """,
        whole=True,
    )
    assert done.stdout == "1000.0\n" and done.stderr == ""


def test_this_session_does_not_litter():
    assert "TORCH_NEURONX_NEFF_CACHE_DIR" in os.environ


def test_the_real_backend_has_the_device_to_itself(tmp_path, run_python):
    """Where AWS's torch-neuronx is installed, ours registers nothing and says so once."""
    info = tmp_path / "torch_neuronx-2.14.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-neuronx\nVersion: 2.14.3\n")
    code = f"""
        import sys, warnings
        sys.path.insert(0, {str(tmp_path)!r})
        import torch, trnsim
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trnsim._autoload()
            trnsim._autoload()
        assert not hasattr(torch, "neuron")
        print(len(caught), caught[0].message)
    """
    done = run_python(code, preamble="")
    assert done.stdout.startswith("1 ") and "torch-neuronx is installed" in done.stdout
    assert "Uninstall one of the two" in done.stdout


def test_any_of_our_modules_may_be_imported_first():
    for module in ("trnsim.device", "trnsim.ledger", "trnsim.eager", "torch_neuronx"):
        done = plain(
            f"import {module}, torch; print(torch.ones(1, device='neuron').item(), torch.neuron.device_count())"
        )
        assert done.returncode == 0, done.stderr
