import java.io.ByteArrayOutputStream;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.spec.NamedParameterSpec;
import java.security.spec.XECPrivateKeySpec;
import java.security.spec.XECPublicKeySpec;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.crypto.Cipher;
import javax.crypto.KeyAgreement;
import javax.crypto.Mac;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/** The handshake and the records of docs/channel.md, checked against its test vectors. */
public final class Channel {
    static final int HELLO = 1, ACCEPT = 2, AGAIN = 3, PROOF = 4, LAST = 6, REKEY = 7, CLOSE = 8;
    static final String PROLOGUE = "teescope channel 1";

    public static void main(String[] args) throws Exception {
        int reproduced = 0;
        for (Map<String, List<byte[]>> given : read(Path.of(args[0]))) {
            Map<String, List<byte[]>> computed = new Channel(given).session();
            for (String name : computed.keySet()) {
                for (int i = 0; i < computed.get(name).size(); i++) {
                    byte[] want = given.containsKey(name) && i < given.get(name).size() ? given.get(name).get(i) : new byte[0];
                    if (!Arrays.equals(want, computed.get(name).get(i))) {
                        System.err.printf("vector %d: %s %d is %s, the file has %s%n", reproduced + 1, name, i + 1, hex(computed.get(name).get(i)), hex(want));
                        System.exit(1);
                    }
                }
                if (computed.get(name).size() != given.get(name).size()) {
                    System.err.printf("vector %d: %d of %s, the file has %d%n", reproduced + 1, computed.get(name).size(), name, given.get(name).size());
                    System.exit(1);
                }
            }
            reproduced++;
        }
        System.out.printf("%d vectors reproduced%n", reproduced);
    }

    static List<Map<String, List<byte[]>>> read(Path file) throws Exception {
        List<Map<String, List<byte[]>>> all = new ArrayList<>();
        for (String line : Files.readAllLines(file)) {
            if (line.startsWith("vector ")) {
                all.add(new LinkedHashMap<>());
            } else if (!line.isEmpty() && !line.startsWith("#")) {
                String[] parts = line.split(" ", 2);
                all.get(all.size() - 1).computeIfAbsent(parts[0], k -> new ArrayList<>()).add(HexFormat.of().parseHex(parts[1]));
            }
        }
        return all;
    }

    static String hex(byte[] b) {
        return HexFormat.of().formatHex(b);
    }

    final Map<String, List<byte[]>> given;
    final Map<String, List<byte[]>> out = new LinkedHashMap<>();
    final boolean aes;

    Channel(Map<String, List<byte[]>> given) {
        this.given = given;
        this.aes = given("suite")[0] == 1;
    }

    byte[] given(String name) {
        return given.get(name).get(0);
    }

    void say(String name, byte[] value) {
        out.computeIfAbsent(name, k -> new ArrayList<>()).add(value);
    }

    /** Both sides of a session. */
    Map<String, List<byte[]>> session() throws Exception {
        boolean ticket = given.containsKey("ticket_key");
        boolean again = given.containsKey("client_second_ephemeral");
        boolean resumed = ticket && !again;
        byte[] first = hello(ticket, given("client_ephemeral"), null);
        String ephemeral = "client_ephemeral";
        byte[] before = null;
        if (again) { // the server does not know the ticket
            say("server_frame", frame(AGAIN, new byte[0]));
            before = sha256(first);
            ephemeral = "client_second_ephemeral";
            hello(false, given(ephemeral), before);
        }
        accept(given(ephemeral), given("server_ephemeral"), resumed);
        say("hash", h);

        Sender client = new Sender("client", ck1), server = new Sender("server", ck2);
        for (Sender s : List.of(server, client)) {
            byte[] proof = given(s.name + "_share");
            if (!resumed) {
                byte[] binding = MessageDigest.getInstance("SHA-512").digest(join(text(PROLOGUE + " evidence of the " + s.name), new byte[1], h));
                say(s.name + "_binding", binding);
                byte[] evidence = join(text(s.name + " has "), Arrays.copyOf(binding, 8));
                say(s.name + "_evidence", evidence);
                proof = join(proof, evidence);
            }
            s.record(PROOF, proof);
        }
        client.rekeyAfter = 2;
        for (Sender s : List.of(client, server)) {
            for (byte[] message : given.get(s.name + "_says")) {
                s.send(message);
            }
        }
        client.record(CLOSE, new byte[0]);

        byte[] secret = join(given("client_share"), given("server_share"));
        byte[] next = expand(hmac(h, secret), text(PROLOGUE + " resume"), 48);
        say("next_ticket_key", Arrays.copyOf(next, 32));
        say("next_ticket_id", Arrays.copyOfRange(next, 32, 48));
        return out;
    }

    // Noise, revision 34: the symmetric state of section 5.2, and messages of NN and NNpsk0.

    byte[] h, ck, k, ck1, ck2;
    long n;

    void start(String pattern, byte[] prologue) throws Exception {
        byte[] name = text("Noise_" + pattern + "_25519_" + (aes ? "AESGCM" : "ChaChaPoly") + "_SHA256");
        h = name.length <= 32 ? Arrays.copyOf(name, 32) : sha256(name);
        ck = h;
        k = null;
        mixHash(prologue);
    }

    void mixHash(byte[] data) throws Exception {
        h = sha256(join(h, data));
    }

    void mixKey(byte[] data) throws Exception {
        byte[][] o = derive(ck, data, 2);
        ck = o[0];
        k = o[1];
        n = 0;
    }

    void mixKeyAndHash(byte[] data) throws Exception {
        byte[][] o = derive(ck, data, 3);
        ck = o[0];
        mixHash(o[1]);
        k = o[2];
        n = 0;
    }

    byte[] encryptAndHash(byte[] plain) throws Exception {
        byte[] c = k == null ? plain : seal(k, n++, h, plain);
        mixHash(c);
        return c;
    }

    /** Message 1, in its hello. Returns the body of the frame. */
    byte[] hello(boolean ticket, byte[] ephemeral, byte[] before) throws Exception {
        byte[] service = given("service");
        byte[] said = join(new byte[] {1, given("suite")[0], (byte) (ticket ? 1 : 0), (byte) service.length}, service, ticket ? given("ticket_id") : new byte[0]);
        start(ticket ? "NNpsk0" : "NN", join(text(PROLOGUE), before == null ? new byte[0] : join(text(" again"), before), said));
        if (ticket) {
            mixKeyAndHash(given("ticket_key"));
        }
        byte[] e = publicOf(ephemeral);
        mixHash(e);
        if (ticket) {
            mixKey(e);
        }
        byte[] body = join(said, e, encryptAndHash(new byte[0]));
        say("client_frame", frame(HELLO, body));
        return body;
    }

    /** Message 2, and the keys of both directions. */
    void accept(byte[] client, byte[] server, boolean ticket) throws Exception {
        byte[] e = publicOf(server);
        mixHash(e);
        if (ticket) {
            mixKey(e);
        }
        mixKey(exchange(server, publicOf(client)));
        say("server_frame", frame(ACCEPT, join(e, encryptAndHash(new byte[0]))));
        byte[][] keys = derive(ck, new byte[0], 2);
        ck1 = keys[0];
        ck2 = keys[1];
    }

    /** A direction of the session. */
    final class Sender {
        final String name;
        byte[] key;
        long nonce;
        int records, rekeyAfter = Integer.MAX_VALUE;

        Sender(String name, byte[] key) {
            this.name = name;
            this.key = key;
        }

        void record(int kind, byte[] body) throws Exception {
            byte[] header = header(kind, body.length + 16);
            say(name + "_frame", join(header, seal(key, nonce++, header, body)));
            records++;
        }

        void send(byte[] message) throws Exception {
            if (records >= rekeyAfter) {
                record(REKEY, new byte[0]);
                key = Arrays.copyOf(seal(key, -1, new byte[0], new byte[32]), 32);
                records = 0;
            }
            record(LAST, message);
        }
    }

    static byte[] header(int kind, int length) {
        return new byte[] {(byte) kind, (byte) (length >> 16), (byte) (length >> 8), (byte) length};
    }

    static byte[] frame(int kind, byte[] body) {
        return join(header(kind, body.length), body);
    }

    // The primitives, by the JDK.

    byte[] seal(byte[] key, long nonce, byte[] ad, byte[] plain) throws GeneralSecurityException {
        byte[] iv = ByteBuffer.allocate(12).order(aes ? ByteOrder.BIG_ENDIAN : ByteOrder.LITTLE_ENDIAN).putInt(0).putLong(nonce).array();
        Cipher c = Cipher.getInstance(aes ? "AES/GCM/NoPadding" : "ChaCha20-Poly1305");
        c.init(Cipher.ENCRYPT_MODE, new SecretKeySpec(key, aes ? "AES" : "ChaCha20"), aes ? new GCMParameterSpec(128, iv) : new IvParameterSpec(iv));
        c.updateAAD(ad);
        return c.doFinal(plain);
    }

    static byte[] exchange(byte[] ours, byte[] theirs) throws GeneralSecurityException {
        KeyFactory keys = KeyFactory.getInstance("X25519");
        PrivateKey a = keys.generatePrivate(new XECPrivateKeySpec(NamedParameterSpec.X25519, ours));
        byte[] big = new byte[32];
        for (int i = 0; i < 32; i++) {
            big[i] = theirs[31 - i];
        }
        big[0] &= 0x7f;
        PublicKey b = keys.generatePublic(new XECPublicKeySpec(NamedParameterSpec.X25519, new BigInteger(1, big)));
        KeyAgreement k = KeyAgreement.getInstance("X25519");
        k.init(a);
        k.doPhase(b, true);
        return k.generateSecret();
    }

    static byte[] publicOf(byte[] ephemeral) throws GeneralSecurityException {
        byte[] nine = new byte[32];
        nine[0] = 9;
        return exchange(ephemeral, nine);
    }

    static byte[][] derive(byte[] ck, byte[] input, int outputs) throws GeneralSecurityException {
        byte[] all = expand(hmac(ck, input), new byte[0], 32 * outputs);
        byte[][] o = new byte[outputs][];
        for (int i = 0; i < outputs; i++) {
            o[i] = Arrays.copyOfRange(all, 32 * i, 32 * i + 32);
        }
        return o;
    }

    /** HKDF-Expand of RFC 5869, which with an empty info is Noise's HKDF. */
    static byte[] expand(byte[] key, byte[] info, int length) throws GeneralSecurityException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        byte[] last = new byte[0];
        for (int i = 1; out.size() < length; i++) {
            last = hmac(key, join(last, info, new byte[] {(byte) i}));
            out.writeBytes(last);
        }
        return Arrays.copyOf(out.toByteArray(), length);
    }

    static byte[] hmac(byte[] key, byte[] data) throws GeneralSecurityException {
        Mac m = Mac.getInstance("HmacSHA256");
        m.init(new SecretKeySpec(key, "HmacSHA256"));
        return m.doFinal(data);
    }

    static byte[] sha256(byte[] data) throws GeneralSecurityException {
        return MessageDigest.getInstance("SHA-256").digest(data);
    }

    static byte[] text(String s) {
        return s.getBytes(StandardCharsets.US_ASCII);
    }

    static byte[] join(byte[]... parts) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (byte[] p : parts) {
            out.writeBytes(p);
        }
        return out.toByteArray();
    }
}
