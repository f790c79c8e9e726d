"""Compare a result of the device with the CPU's: values, dtype, shape, strides, device, lazy bits, aliasing."""

from __future__ import annotations

import math

import torch

# torch.testing.assert_close's own defaults (rtol, atol): equal kernels give equal bits, so these only admit the few kernels
# that the device owns (convolution, attention, RNN cells, half-precision products that round once).
TOLERANCE: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
    torch.float32: (1.3e-6, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.float16: (1e-3, 1e-5),
    torch.complex32: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
}


class Mismatch(AssertionError):
    """The device's answer differs from the CPU's."""


class Comparison:
    """One comparison. `bit_equal` says afterwards whether every value had the CPU's bits."""

    def __init__(self, device: str, *, values: bool = True, any_device: bool = False) -> None:
        self._device = torch.device(device).type
        self._values = values
        self._any_device = any_device
        self.bit_equal = True

    def check(self, actual: object, expected: object, path: str = "result") -> None:
        """Raise `Mismatch` at the first difference, naming its path in the nest."""
        if isinstance(expected, torch.Tensor):
            if not isinstance(actual, torch.Tensor):
                raise Mismatch(f"{path}: got {type(actual).__name__}, CPU gives a tensor")
            self._tensor(actual, expected, path)
        elif isinstance(expected, (list, tuple)):
            if type(actual) is not type(expected) or len(actual) != len(expected):
                raise Mismatch(
                    f"{path}: got {type(actual).__name__}, CPU gives {type(expected).__name__} of {len(expected)}"
                )
            for i, (a, e) in enumerate(zip(actual, expected)):
                self.check(a, e, f"{path}[{i}]")
        elif isinstance(expected, dict):
            if not isinstance(actual, dict) or actual.keys() != expected.keys():
                raise Mismatch(f"{path}: keys differ")
            for key, e in expected.items():
                self.check(actual[key], e, f"{path}[{key!r}]")
        elif isinstance(expected, torch.device):
            pass  # an op's device answer is the device it ran on
        elif isinstance(expected, float) and isinstance(actual, float):
            if not (actual == expected or (math.isnan(actual) and math.isnan(expected))):
                if not math.isclose(actual, expected, rel_tol=1.3e-6, abs_tol=1e-5):
                    raise Mismatch(f"{path}: {actual} instead of {expected}")
                self.bit_equal = False
        elif isinstance(expected, (int, bool, str, complex, torch.dtype, torch.Size, type(None))):
            if type(actual) is not type(expected) or (self._values and actual != expected):
                raise Mismatch(f"{path}: {actual!r} instead of {expected!r}")

    def _tensor(self, actual: torch.Tensor, expected: torch.Tensor, path: str) -> None:
        if not self._any_device and actual.device.type != self._device:
            raise Mismatch(f"{path}: on {actual.device} instead of {self._device}")
        for name in ("dtype", "shape", "layout", "is_quantized", "requires_grad"):
            if getattr(actual, name) != getattr(expected, name):
                raise Mismatch(f"{path}: {name} {getattr(actual, name)} instead of {getattr(expected, name)}")
        if expected.layout == torch.strided and not expected.is_nested:
            if actual.stride() != expected.stride():
                raise Mismatch(
                    f"{path}: strides {actual.stride()} instead of {expected.stride()} (shape {tuple(expected.shape)})"
                )
            if actual.is_conj() != expected.is_conj() or actual.is_neg() != expected.is_neg():
                raise Mismatch(f"{path}: conj/neg bit differs")
        if self._values:
            self._compare_values(actual.detach().cpu(), expected.detach(), path)

    def _compare_values(self, actual: torch.Tensor, expected: torch.Tensor, path: str) -> None:
        if expected.is_quantized:
            actual, expected = actual.dequantize(), expected.dequantize()
        if expected.layout != torch.strided:
            if expected.layout == torch.sparse_coo and actual.is_coalesced() != expected.is_coalesced():
                raise Mismatch(f"{path}: coalesced flag differs")
            actual, expected = actual.to_dense(), expected.to_dense()
        if actual.numel() == 0 or same_bits(actual, expected):
            return
        self.bit_equal = False
        if expected.dtype not in TOLERANCE:
            if torch.equal(actual, expected):
                return
            raise Mismatch(
                f"{path}: {int((actual != expected).sum())} of {expected.numel()} {expected.dtype} values differ"
            )
        rtol, atol = TOLERANCE[expected.dtype]
        wide = torch.complex128 if expected.dtype.is_complex else torch.float64
        a, e = actual.to(wide), expected.to(wide)
        if expected.dtype in (torch.float16, torch.bfloat16, torch.complex32):
            # A half-precision sum carries an error relative to its largest terms, not to a result that cancelled.
            finite = e.abs()[e.abs().isfinite()]
            atol = max(atol, torch.finfo(expected.dtype).eps * float(finite.max()) if finite.numel() else atol)
        close = torch.isclose(a, e, rtol=rtol, atol=atol, equal_nan=True)
        if not bool(close.all()):
            worst = float((a - e).abs().nan_to_num(nan=math.inf).max())
            raise Mismatch(
                f"{path}: {int((~close).sum())} of {e.numel()} values differ, by up to {worst:.3g} ({expected.dtype})"
            )


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True if both hold the same bytes, or the same values with any NaN equal to any NaN."""
    a, b = (t.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format).reshape(-1) for t in (a, b))
    if torch.equal(a.view(torch.uint8), b.view(torch.uint8)):
        return True
    if not (a.dtype.is_floating_point or a.dtype.is_complex) or a.dtype.itemsize == 1:
        return False
    if a.dtype.is_complex:
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    return bool(((a == b) | (a.isnan() & b.isnan())).all())


def aliases(value: object, storages: dict[int, int]) -> list[int]:
    """For each strided tensor of the nest in order: which moved storage it shares, or -1."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.numel() == 0:
            return [-1]
        try:
            return [storages.get(value.untyped_storage().data_ptr(), -1)]
        except RuntimeError:  # an efficient zero tensor of autograd has no memory
            return [-1]
    if isinstance(value, (list, tuple)):
        return [i for item in value for i in aliases(item, storages)]
    if isinstance(value, dict):
        return [i for item in value.values() for i in aliases(item, storages)]
    return []
