# SPDX-License-Identifier: Apache-2.0
"""Torch tensors and numpy arrays as pointers with shapes and strides in elements."""

import sys

from ._library import C, Error, ffi

# enum attune_dtype by the last part of a type's name. numpy has no names for the last two:
# arrays of their bits do, of uint16 and uint8.
DTYPES = {
    "float32": C.ATTUNE_F32,
    "float16": C.ATTUNE_F16,
    "bfloat16": C.ATTUNE_BF16,
    "float8_e4m3fn": C.ATTUNE_E4M3,
}
BITS = {"uint16": C.ATTUNE_BF16, "uint8": C.ATTUNE_E4M3}
NAMES = {code: name for name, code in DTYPES.items()}
SIZES = {C.ATTUNE_F32: 4, C.ATTUNE_F16: 2, C.ATTUNE_BF16: 2, C.ATTUNE_E4M3: 1}
INT32, INT64 = "int32", "int64"
INTS, BYTES, AT = map(ffi.typeof, ("int32_t[]", "char[]", "char *"))
_types = {}  # what _type_of found


def torch_or_none():
    """torch, if the program has imported it: nothing else can hold tensors."""
    return sys.modules.get("torch")


def is_tensor(x):
    torch = torch_or_none()
    return torch is not None and isinstance(x, torch.Tensor)


def _is_array(x):
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, numpy.ndarray)


def _no_array(x, name):
    return Error(
        f"{name} is of type {type(x).__name__}: it must be a torch tensor or, on the CPU, a numpy "
        "array"
    )


def dtype_name(dtype):
    """'bfloat16' of torch.bfloat16, numpy.dtype, a class or a string."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return name.rpartition(".")[2]


def dtype_code(dtype, what):
    code = DTYPES.get(dtype_name(dtype), BITS.get(dtype_name(dtype)))
    if code is None:
        raise Error(f"{what}={dtype_name(dtype)}: it is one of {', '.join(DTYPES)}")
    return code


def _type_of(dtype):
    """(name, bytes of an element) of a type of torch or numpy."""
    known = _types.get(dtype)
    if known is None:
        name = dtype_name(dtype) if getattr(dtype, "isnative", True) else str(dtype)
        known = _types[dtype] = name, dtype.itemsize
    return known


class View:
    """One array: ptr (cffi's char *), shape, strides (elements), dtype (a name), device (a string)."""

    __slots__ = ("ptr", "shape", "strides", "dtype", "device")

    def __init__(self, x, name):
        if _is_array(x):
            self.dtype, size = _type_of(x.dtype)
            self.ptr, self.shape, self.device = _address(x), x.shape, "cpu"
            self.strides = tuple([s // size for s in x.strides])
            if not x.flags.aligned:
                raise Error(f"{name}: its elements of {size} bytes are not aligned")
        elif is_tensor(x):
            self.ptr, self.shape = ffi.cast(AT, x.data_ptr()), tuple(x.shape)
            self.strides, self.device = x.stride(), str(x.device)
            self.dtype = _type_of(x.dtype)[0]
        else:
            raise _no_array(x, name)


def _address(x):
    """The address of a numpy array. __array_interface__ takes five times as long."""
    try:
        return ffi.from_buffer(BYTES, x if x.flags.c_contiguous else x[(0,) * (x.ndim - 1)])
    except (ValueError, IndexError, BufferError):  # no elements, gaps, or a type of another package
        return ffi.cast(AT, x.__array_interface__["data"][0])


def _fits(has, want, rows):
    if len(has) != len(want) or not want:
        return has == want
    if has[0] < rows if want[0] is None else has[0] != want[0]:
        return False
    return has[1:] == want[1:] or all([w is None or n == w for n, w in zip(has[1:], want[1:])])


def view(x, name, device, dtype, shape, rows=0, packed=True, writes=False):
    """Checks an array, one line each.

    dtype    a code of enum attune_dtype, INT32 or INT64
    shape    None is any size; the first dimension has `rows` entries or more
    packed   the last dimension is contiguous
    writes   the call writes it"""
    v = View(x, name)
    if v.device != device:
        raise Error(f"{name} is on {v.device}, its context on {device}")
    if isinstance(dtype, str):
        if v.dtype != dtype:
            raise Error(f"{name} is of {v.dtype}, it must be {dtype}")
    elif v.dtype != NAMES[dtype] and BITS.get(v.dtype) != dtype:
        raise Error(f"{name} is of {v.dtype}, its layer takes {NAMES[dtype]}")
    if not _fits(v.shape, shape, rows):
        want = ", ".join(
            str(w) if w is not None else f"{rows} or more" if i == 0 and rows else "any"
            for i, w in enumerate(shape)
        )
        raise Error(f"{name} has the shape {list(v.shape)}, it must have [{want}]")
    if packed and v.shape[-1] > 1 and v.strides[-1] != 1 and 0 not in v.shape:
        raise Error(
            f"{name}: its last dimension must be contiguous, it has a stride of {v.strides[-1]}"
        )
    if writes and getattr(getattr(x, "flags", None), "writeable", True) is False:
        raise Error(f"{name} is read-only")
    return v


class Lengths:
    """Host lengths as an int32 pointer: a list, a numpy array or a CPU tensor of int32 or int64."""

    __slots__ = ("ptr", "count", "keep")

    def __init__(self, x, name):
        if isinstance(x, (list, tuple)):
            try:
                self.keep = ffi.new("int32_t[]", x)
            except (OverflowError, TypeError) as e:
                raise Error(f"{name}: {e}; it has integers below 2^31") from None
            self.ptr, self.count = self.keep, len(x)
            return
        if not is_tensor(x):
            if not _is_array(x):
                raise _no_array(x, name)
        elif not x.is_cpu:
            raise Error(
                f"{name} is on {x.device}: lengths are in host memory (plan_bounds plans "
                "without them)"
            )
        dtype = _type_of(x.dtype)[0]
        if x.ndim != 1 or dtype not in (INT32, INT64):
            raise Error(
                f"{name} is of {dtype} and {x.ndim} dimensions: it has one dimension of int32 or "
                "int64"
            )
        self.keep, self.count = x, x.shape[0]
        if dtype == INT64:
            self.__init__(x.tolist(), name)
        elif is_tensor(x):
            self.keep = x.contiguous()
            self.ptr = ffi.cast("int32_t *", self.keep.data_ptr())
        else:
            self.keep = x if x.flags.c_contiguous else x.copy()
            self.ptr = ffi.from_buffer(INTS, self.keep)


def empty_like(x, name):
    """A contiguous numpy array of x's shape and type."""
    if not _is_array(x):
        raise _no_array(x, name)
    return sys.modules["numpy"].empty(x.shape, x.dtype)
