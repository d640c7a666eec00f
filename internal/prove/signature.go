package prove

import "math/big"

// The statement that every proof is about: this key signed this message (RSASSA-PKCS1-v1_5 with SHA-256, RFC 8017, section 8.2; made
// by openssl dgst -sha256 -sign). The private key was thrown away. All runs prove the same, so their public values are equal.
const (
	signedMessage = "teescope zk-rsa: 64 bytes, which stand for a signed certificate."
	signedModulus = "" +
		"b8c4dbc3758bf7f849b434e63c5694b2bbd09207ad0a9facad8463a055106ae1ec3d9572c33ec8594a1c390b5aee9605bb76cc0ee6ca2ae86f1d3487967c21fa" +
		"436dce33dd46653160a4f3547bcfdf4ba46ae86d825daaf57eaf78848e29ab38b3ce3d6b642d3b8c586680891765c1d7c6a61f1c5b1814db0aa21f64e371b3ef" +
		"53abec595e479369acc747dedf948a5a19f2717f1fdfb2399e5448e2680b61452d05872e036b7f8d995182f758ba35bd3920f8e524a708857ccf7e01ac05d640" +
		"5c9a657dd2fb6993e76f2ed67d047384a9467bfacaa7933d4b25e49fc871e0a3aa1c392d4c9bfacd651fc4a9b7c28737d13e08f214312a0f8aa1fab2440439e5"
	signedSignature = "" +
		"b734158fbbcc025c414c755b0f540a8b642d0a856e3ef5820ba0313043af981ac43a40e11532a055344b7fe78ae742e0c005220ab5170d29b89ae250ab224e69" +
		"86ff46808fe2fe540c36bfb9336c411a85c8e859f127320f47f8b018edc253c6534e91b0b5a97b9cb9002ccb209b5303fbcf94b0ccbd6605c639720c410385c4" +
		"f2a8dee0f1db3aeb85ddaf996527ba7ef66bc3d9ffdccde8874a064a82df154beddbbf16193b6fe06504270ec4b9fed70cd8665c2fa669b5fd538c0f64b7cfd8" +
		"29cce110c272738fce9bce60d7c02370289939a104ab4243ea3ad66e57d8130e404ae8fe9814d080db9f9a7188b2b6a5e34f6a862deb4deaabd070f12b2b2564"
)

// publicExponent is that of the key, as of nearly all certificates.
const publicExponent = 1<<16 + 1

// number reads one of the constants above.
func number(hex string) *big.Int {
	n, ok := new(big.Int).SetString(hex, 16)
	if !ok {
		panic("a constant of this file is not a number")
	}
	return n
}
