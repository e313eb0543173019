"""Numbers of one width, one after the other without gaps, lowest bit first, the last byte filled up with zeros."""


def pack(values, width):
    parts = []
    pending, filled = 0, 0
    for value in values:
        assert value >= 0 and value >> width == 0
        pending |= value << filled
        filled += width
        if filled >= 4096:
            whole = filled // 8 * 8
            parts.append((pending & (1 << whole) - 1).to_bytes(whole // 8, "little"))
            pending >>= whole
            filled -= whole
    parts.append(pending.to_bytes(-(-filled // 8), "little"))
    return b"".join(parts)


def unpack(data, count, width):
    assert len(data) == -(-count * width // 8)
    mask = (1 << width) - 1
    values = []
    for index in range(count):
        bit = index * width
        window = int.from_bytes(data[bit // 8:(bit + width + 7) // 8], "little")
        values.append(window >> bit % 8 & mask)
    return values


def signed(value, width):
    return value - (1 << width) if value >> (width - 1) & 1 else value
