"""The file format of a cached executable: what a `.neff` of trnsim holds, and how a file is trusted.

    offset  size  content
    0       8     magic b"TRNSNEFF"
    8       2     format version, little endian
    10      4     header length H, little endian
    14      8     payload length P, little endian
    22      32    SHA-256 over bytes 0..22, header and payload
    54      H     header: UTF-8 JSON object, keys sorted
    54+H    P     payload (compiled graphs; empty for a single eager op)

Nothing is ever unpickled or executed while reading. A file is refused unless it is a regular file (no symbolic link),
owned by this user or root, not writable by others, of the right length, version and checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from dataclasses import dataclass
from typing import Any

from trnsim.errors import CacheError

__all__ = ["FORMAT_VERSION", "MAGIC", "Container", "canonical_json", "pack", "read_file", "unpack"]

MAGIC = b"TRNSNEFF"
FORMAT_VERSION = 1
MAX_HEADER_BYTES = 1 << 20
_PREFIX = struct.Struct("<8sHIQ")
_DIGEST_BYTES = hashlib.sha256().digest_size
_START = _PREFIX.size + _DIGEST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The content of a cache file."""

    header: dict[str, Any]
    payload: bytes


def canonical_json(value: object) -> bytes:
    """Serialise so that equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def pack(header: bytes, payload: bytes = b"") -> bytes:
    """Return the bytes of a cache file; `header` is canonical JSON of an object."""
    if len(header) > MAX_HEADER_BYTES:
        raise CacheError(f"Executable header of {len(header)} bytes; at most {MAX_HEADER_BYTES} are allowed.")
    prefix = _PREFIX.pack(MAGIC, FORMAT_VERSION, len(header), len(payload))
    digest = hashlib.sha256(prefix)
    digest.update(header)
    digest.update(payload)
    return b"".join((prefix, digest.digest(), header, payload))


def unpack(data: bytes) -> Container:
    """Check and take apart the bytes of a cache file; CacheError says what is wrong with them."""
    if len(data) < _START:
        raise CacheError(f"truncated: {len(data)} bytes, at least {_START} are needed")
    magic, version, header_bytes, payload_bytes = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise CacheError(f"not an executable of trnsim: it starts with {magic!r}, not {MAGIC!r}")
    if version != FORMAT_VERSION:
        raise CacheError(f"format version {version}, this trnsim reads version {FORMAT_VERSION}")
    expected = _START + header_bytes + payload_bytes
    if header_bytes > MAX_HEADER_BYTES or len(data) != expected:
        raise CacheError(f"truncated or padded: {len(data)} bytes, the lengths inside it add up to {expected}")
    digest = hashlib.sha256(data[: _PREFIX.size])
    digest.update(data[_START:])
    if digest.digest() != data[_PREFIX.size : _START]:
        raise CacheError("checksum mismatch: the content was damaged")
    try:
        header = json.loads(data[_START : _START + header_bytes])
    except ValueError as error:
        raise CacheError(f"header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise CacheError(f"header is a {type(header).__name__}, not an object")
    return Container(header=header, payload=data[_START + header_bytes :])


def read_file(path: str) -> Container | None:
    """Read a cache file; None if there is none, CacheError if it cannot be trusted or is damaged."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except OSError as error:
        raise CacheError(f"cannot be opened: {error.strerror} (symbolic links are not followed)") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise CacheError("not a regular file")
        if status.st_uid not in (os.geteuid(), 0):
            raise CacheError(f"owned by uid {status.st_uid}; only files of uid {os.geteuid()} or root are trusted")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise CacheError(f"writable by others (mode {stat.S_IMODE(status.st_mode):o}; 600 is expected)")
        parts = []
        while block := os.read(descriptor, max(status.st_size + 1, 1 << 16)):
            parts.append(block)
    except OSError as error:
        raise CacheError(f"cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    return unpack(b"".join(parts))
