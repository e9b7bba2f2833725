"""The digest of docs/watch-contract.md: the hash of an instance, and that of a set."""

M = 2**64 - 1


def parts(version):
    """The five parts of a version in the order in which they count."""
    return (version.owner, version.clock, version.boot, version.overlay_clock, version.overlay_boot)


def instance_hash(namespace, app, id, version):
    """`version` is its five parts."""
    data = b"".join(text.encode() + b"\0" for text in (namespace, app, id))
    data += b"".join(part.to_bytes(8, "little") for part in version)
    x = 0xCBF29CE484222325
    for byte in data:
        x = (x ^ byte) * 0x100000001B3 & M
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & M
    x = (x ^ x >> 27) * 0x94D049BB133111EB & M
    return x ^ x >> 31


def set_hash(hashes):
    return sum(hashes) & M
