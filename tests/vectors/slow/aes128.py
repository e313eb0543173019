"""AES-128 (FIPS 197), encryption only, on numbers of 128 bits whose lowest byte is the first."""


def _double(value):
    return value << 1 ^ (0x11B if value & 0x80 else 0)


def _sbox():
    # The inverse in GF(2^8) by powers of the generator 3, then the affine map.
    power, powers, logs = 1, [], {}
    for exponent in range(255):
        powers.append(power)
        logs[power] = exponent
        power ^= _double(power)
    box = []
    for value in range(256):
        inverse = powers[-logs[value] % 255] if value else 0
        turned = inverse
        for _ in range(4):
            turned = (turned << 1 | turned >> 7) & 0xFF
            inverse ^= turned
        box.append(inverse ^ 0x63)
    return box


SBOX = _sbox()


def _tables():
    # Substitution and the mixing of one column, for a byte in each of its four rows.
    tables = [[0] * 256 for _ in range(4)]
    for value in range(256):
        s = SBOX[value]
        two = _double(s)
        column = [two, s, s, two ^ s]
        for row in range(4):
            rotated = [column[(place - row) % 4] for place in range(4)]
            tables[row][value] = int.from_bytes(bytes(rotated), "little")
    return tables


T0, T1, T2, T3 = _tables()


def expand(key):
    """Eleven round keys of four words each."""
    words = [key >> 32 * place & 0xFFFFFFFF for place in range(4)]
    constant = 1
    for place in range(4, 44):
        word = words[-1]
        if place % 4 == 0:
            word = (word >> 8 | word << 24) & 0xFFFFFFFF
            word = sum(SBOX[word >> shift & 255] << shift for shift in (0, 8, 16, 24)) ^ constant
            constant = _double(constant)
        words.append(words[-4] ^ word)
    return words


def encrypt(keys, block):
    """One block under the round keys of `expand`."""
    a = (block & 0xFFFFFFFF) ^ keys[0]
    b = (block >> 32 & 0xFFFFFFFF) ^ keys[1]
    c = (block >> 64 & 0xFFFFFFFF) ^ keys[2]
    d = (block >> 96) ^ keys[3]
    for place in range(4, 40, 4):
        a, b, c, d = (
            T0[a & 255] ^ T1[b >> 8 & 255] ^ T2[c >> 16 & 255] ^ T3[d >> 24] ^ keys[place],
            T0[b & 255] ^ T1[c >> 8 & 255] ^ T2[d >> 16 & 255] ^ T3[a >> 24] ^ keys[place + 1],
            T0[c & 255] ^ T1[d >> 8 & 255] ^ T2[a >> 16 & 255] ^ T3[b >> 24] ^ keys[place + 2],
            T0[d & 255] ^ T1[a >> 8 & 255] ^ T2[b >> 16 & 255] ^ T3[c >> 24] ^ keys[place + 3],
        )
    s = SBOX
    result = 0
    for place, (w, x, y, z) in enumerate(((a, b, c, d), (b, c, d, a), (c, d, a, b), (d, a, b, c))):
        word = s[w & 255] | s[x >> 8 & 255] << 8 | s[y >> 16 & 255] << 16 | s[z >> 24] << 24
        result |= (word ^ keys[40 + place]) << 32 * place
    return result
