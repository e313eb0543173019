"""The group ristretto255 (RFC 9496) on edwards25519, in extended coordinates."""

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
SQRT_M1 = pow(2, (P - 1) // 4, P)
IDENTITY = (0, 1, 1, 0)


def _is_negative(value):
    return value % P & 1 == 1


def _absolute(value):
    return -value % P if _is_negative(value) else value % P


def sqrt_ratio(u, v):
    """Whether u / v is a square, and the non-negative root of u / v or of i u / v."""
    root = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    check = v * root * root % P
    correct, flipped, flipped_i = check == u % P, check == -u % P, check == -u * SQRT_M1 % P
    if flipped or flipped_i:
        root = root * SQRT_M1 % P
    return correct or flipped, _absolute(root)


INVSQRT_A_MINUS_D = sqrt_ratio(1, (-1 - D) % P)[1]


def add(one, other):
    x1, y1, z1, t1 = one
    x2, y2, z2, t2 = other
    a, b = (y1 - x1) * (y2 - x2) % P, (y1 + x1) * (y2 + x2) % P
    c, d = 2 * t1 * t2 * D % P, 2 * z1 * z2 % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def double(point):
    x, y, z, _ = point
    a, b, c = x * x % P, y * y % P, 2 * z * z % P
    h, e = a + b, (a + b) - (x + y) * (x + y)
    g, f = a - b, c + a - b
    return e * f % P, g * h % P, f * g % P, e * h % P


def negate(point):
    x, y, z, t = point
    return -x % P, y, z, -t % P


def multiply(scalar, point):
    """Four bits at a time."""
    multiples = [IDENTITY]
    for _ in range(15):
        multiples.append(add(multiples[-1], point))
    result = IDENTITY
    for shift in range(252, -4, -4):
        for _ in range(4):
            result = double(result)
        digit = scalar >> shift & 15
        if digit:
            result = add(result, multiples[digit])
    return result


def encode(point):
    x0, y0, z0, t0 = point
    u1, u2 = (z0 + y0) * (z0 - y0) % P, x0 * y0 % P
    _, invsqrt = sqrt_ratio(1, u1 * u2 * u2 % P)
    den1, den2 = invsqrt * u1 % P, invsqrt * u2 % P
    z_inv = den1 * den2 * t0 % P
    if _is_negative(t0 * z_inv):
        x, y, den_inv = y0 * SQRT_M1 % P, x0 * SQRT_M1 % P, den1 * INVSQRT_A_MINUS_D % P
    else:
        x, y, den_inv = x0, y0, den2
    if _is_negative(x * z_inv):
        y = -y % P
    return _absolute(den_inv * (z0 - y)).to_bytes(32, "little")


def decode(data):
    s = int.from_bytes(data, "little")
    if s >= P or s & 1:
        return None
    ss = s * s % P
    u1, u2 = (1 - ss) % P, (1 + ss) % P
    u2_square = u2 * u2 % P
    v = (-(D * u1 * u1) - u2_square) % P
    is_square, invsqrt = sqrt_ratio(1, v * u2_square % P)
    den_x = invsqrt * u2 % P
    den_y = invsqrt * den_x * v % P
    x, y = _absolute(2 * s * den_x), u1 * den_y % P
    if not is_square or _is_negative(x * y) or y == 0:
        return None
    return x, y, 1, x * y % P


def _base():
    y = 4 * pow(5, -1, P) % P
    x = sqrt_ratio((y * y - 1) % P, (D * y * y + 1) % P)[1]
    return x, y, 1, x * y % P


BASE = _base()
