// The check of a certificate's signature: RSASSA-PKCS1-v1_5 with SHA-256 and the exponent 65537 (RFC 8017, section 8.2.2). Input: a modulus of
// 2,048 bits, a message of 64 bytes, and the signature, numbers with the most significant byte first. Public values: modulus and message; the
// signature is not among them. A signature that is wrong ends the guest with 1, and then there is no proof.
#include "zkvm.h"

#define BYTES 256
#define MESSAGE 64
#define LIMBS (BYTES / 4)

typedef uint32_t number[LIMBS]; // the least significant limb first

static void read_number(number to, const uint8_t *bytes)
{
	for (int i = 0; i < LIMBS; i++)
		to[i] = big(bytes + BYTES - 4 - 4 * i);
}

static int less(const number a, const number b)
{
	for (int i = LIMBS - 1; i >= 0; i--)
		if (a[i] != b[i])
			return a[i] < b[i];
	return 0;
}

// subtract makes a of a - b modulo 2^2048.
static void subtract(number a, const number b)
{
	uint32_t borrow = 0;
	for (int i = 0; i < LIMBS; i++) {
		uint64_t d = (uint64_t)a[i] - b[i] - borrow;
		a[i] = d;
		borrow = d >> 32 & 1;
	}
}

// twice makes 2 a modulo m of a, which is less than m.
static void twice(number a, const number m)
{
	uint32_t carry = 0;
	for (int i = 0; i < LIMBS; i++) {
		uint32_t limb = a[i];
		a[i] = limb << 1 | carry;
		carry = limb >> 31;
	}
	if (carry || !less(a, m))
		subtract(a, m);
}

// times is a b / R modulo m, with R = 2^2048 and a, b < m (Montgomery 1985). inverse is -1/m modulo 2^32. to may be a or b.
static __attribute__((noinline)) void times(number to, const number a, const number b, const number m, uint32_t inverse)
{
	number t = {0};
	uint32_t top = 0;
	for (int i = 0; i < LIMBS; i++) { // t = (t + a b[i] + q m) / 2^32, q such that nothing is lost
		uint64_t x = (uint64_t)a[0] * b[i] + t[0];
		uint32_t q = (uint32_t)x * inverse;
		uint64_t y = (uint64_t)q * m[0] + (uint32_t)x;
		for (int j = 1; j < LIMBS; j++) {
			x = (uint64_t)a[j] * b[i] + t[j] + (x >> 32);
			y = (uint64_t)q * m[j] + (uint32_t)x + (y >> 32);
			t[j - 1] = y;
		}
		uint64_t z = (x >> 32) + (y >> 32) + top;
		t[LIMBS - 1] = z;
		top = z >> 32;
	}
	if (top || !less(t, m))
		subtract(t, m);
	memcpy(to, t, sizeof t);
}

// power65537 is s^65537 modulo m, with s < m.
static void power65537(number to, const number s, const number m)
{
	uint32_t inverse = m[0]; // right in its lowest three bits, and in twice as many after each step (Newton)
	for (int i = 0; i < 4; i++)
		inverse *= 2 - m[0] * inverse;
	inverse = -inverse;

	number r = {0}; // 2^k R modulo m, first k = 0: 2^2048 - m, as m has 2,048 bits
	subtract(r, m);
	for (int k = 0; k < 64; k++)
		twice(r, m);
	for (int k = 64; k < 2048; k *= 2) // 2^k R times 2^k R is 2^2k R
		times(r, r, r, m, inverse);

	times(to, s, r, m, inverse); // r is R^2, so this is s R
	for (int i = 0; i < 16; i++)
		times(to, to, to, m, inverse);
	times(to, to, s, m, inverse); // without R again
}

// info stands before the hash in the encoded message: DigestInfo of SHA-256 in DER (RFC 8017, section 9.2).
static const uint8_t info[19] = {0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20};

// encode is the encoded message: 00 01 ff ... ff 00, info, hash.
static void encode(uint8_t to[BYTES], const uint8_t message[MESSAGE])
{
	uint8_t *hash = to + BYTES - 32, *digest_info = hash - sizeof info;
	memset(to, 0xff, BYTES);
	to[0] = 0;
	to[1] = 1;
	digest_info[-1] = 0;
	memcpy(digest_info, info, sizeof info);
	sha256(hash, message, MESSAGE);
}

void run(void)
{
	const uint8_t *in = input(BYTES + MESSAGE + BYTES);
	number modulus, signature, opened, wanted;
	read_number(modulus, in);
	read_number(signature, in + BYTES + MESSAGE);
	if (!(modulus[LIMBS - 1] >> 31) || !(modulus[0] & 1) || !less(signature, modulus))
		halt(1);
	power65537(opened, signature, modulus);
	uint8_t encoded[BYTES];
	encode(encoded, in + BYTES);
	read_number(wanted, encoded);
	for (int i = 0; i < LIMBS; i++)
		if (opened[i] != wanted[i])
			halt(1);
	finish(in, BYTES + MESSAGE);
}
