package protocol;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.InvalidKeyException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.TrustManagerFactory;

/** TLS from PEM files, with one cipher suite per version, so that every server does the same work. */
public final class Tls {
    private static final Pattern KEY = Pattern.compile("-----BEGIN (?<kind>[A-Z ]*)PRIVATE KEY-----(?<text>[^-]*)-----END ");
    private static final String MAKER = "`teescope-work certificate` makes certificate and key";

    private Tls() {}

    /** A context for a server: a certificate and its P-256 key in PKCS #8, both in PEM. */
    public static SSLContext server(Path certificate, Path key) throws GeneralSecurityException, IOException {
        KeyStore store = empty();
        store.setKeyEntry("server", secret(key), new char[0], new Certificate[] {read(certificate)});
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, new char[0]);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), null, null);
        return context;
    }

    /** A context for a client that trusts one certificate. */
    public static SSLContext client(Path certificate) throws GeneralSecurityException, IOException {
        KeyStore store = empty();
        store.setCertificateEntry("server", read(certificate));
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    /** The parameters of version 1.2 or 1.3. */
    public static SSLParameters parameters(String version) {
        return switch (version) {
            case "1.2" -> new SSLParameters(new String[] {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, new String[] {"TLSv1.2"});
            case "1.3" -> new SSLParameters(new String[] {"TLS_AES_128_GCM_SHA256"}, new String[] {"TLSv1.3"});
            default -> throw new IllegalArgumentException("TLS version " + version + ": want 1.2 or 1.3");
        };
    }

    private static KeyStore empty() throws GeneralSecurityException, IOException {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        return store;
    }

    private static Certificate read(Path file) throws Failure {
        try {
            return CertificateFactory.getInstance("X.509").generateCertificate(new ByteArrayInputStream(Files.readAllBytes(file)));
        } catch (IOException | CertificateException e) {
            throw new Failure("read certificate " + file, e, "want one in PEM; " + MAKER);
        }
    }

    private static PrivateKey secret(Path file) throws Failure {
        try {
            Matcher pem = KEY.matcher(Files.readString(file, StandardCharsets.ISO_8859_1));
            if (!pem.find()) {
                throw new InvalidKeyException("there is no private key in PEM in it");
            }
            if (!pem.group("kind").isEmpty()) {
                throw new InvalidKeyException("it holds " + pem.group("kind") + "PRIVATE KEY");
            }
            return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(pem.group("text"))));
        } catch (IOException | GeneralSecurityException | IllegalArgumentException e) {
            throw new Failure("read key " + file, e, "want PRIVATE KEY in PEM (PKCS #8, P-256, without a password); " + MAKER);
        }
    }
}
