package server;

import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;
import protocol.Failure;
import protocol.Lines;
import protocol.Message;
import protocol.Options;
import protocol.Tls;

/**
 * A TLS server of the newline protocol with a fixed number of threads; a connection keeps one from
 * its handshake to its end. It prints "loaded", "listening ADDRESS" and "ready", and at its end
 * what it did, in JSON.
 */
public final class BenchServer {
    private static final int MOST_THREADS = 65_536;
    private static final int BACKLOG = 1024;
    private static final int HANDSHAKE_LIMIT_MS = 10_000;
    private static final int IDLE_LIMIT_MS = 60_000;
    private static final String USAGE = "usage: server.BenchServer [--host 127.0.0.1] [--port 8443] [--threads 10] "
            + "[--tls 1.2|1.3] [--cert certs/server.pem] [--key certs/server.key]";

    private final int threads;
    private final AtomicLong connections = new AtomicLong();
    private final AtomicLong failed = new AtomicLong();
    private final AtomicLong messages = new AtomicLong();

    private BenchServer(int threads) {
        this.threads = threads;
    }

    public static void main(String[] args) throws Exception {
        System.out.println("loaded");
        Options options = new Options(args, Map.of("host", "127.0.0.1", "port", "8443", "threads", "10", "tls", "1.3",
                "cert", "certs/server.pem", "key", "certs/server.key"), Set.of(), USAGE);
        BenchServer server = new BenchServer(options.number("threads", 1, MOST_THREADS));
        Failure.told("server.BenchServer", () -> server.run(options));
    }

    private static SSLServerSocket listen(SSLContext context, String host, int port) throws Failure {
        try {
            return (SSLServerSocket) context.getServerSocketFactory().createServerSocket(port, BACKLOG, InetAddress.getByName(host));
        } catch (IOException e) {
            throw new Failure("listen on " + host + ":" + port, e,
                    "stop what listens there, or give another --host or --port (0 is any that is free)");
        }
    }

    private void run(Options options) throws GeneralSecurityException, IOException {
        SSLParameters parameters = Tls.parameters(options.tls());
        int port = options.port(0);
        SSLContext context = Tls.server(Path.of(options.text("cert")), Path.of(options.text("key")));
        try (SSLServerSocket listener = listen(context, options.text("host"), port)) {
            listener.setSSLParameters(parameters);
            Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println(statistics())));
            System.out.println("listening " + options.text("host") + ":" + listener.getLocalPort() + "\nready");
            ExecutorService pool = Executors.newFixedThreadPool(threads);
            for (;;) {
                SSLSocket socket = (SSLSocket) listener.accept();
                pool.execute(() -> serve(socket));
            }
        }
    }

    private void serve(SSLSocket accepted) {
        connections.incrementAndGet();
        try (SSLSocket socket = accepted) {
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(HANDSHAKE_LIMIT_MS);
            socket.startHandshake();
            socket.setSoTimeout(IDLE_LIMIT_MS);
            Lines lines = new Lines(socket.getInputStream());
            OutputStream out = socket.getOutputStream();
            for (;;) {
                Lines.Found found = lines.next();
                long began = System.nanoTime();
                switch (found) {
                    case END -> {
                        return;
                    }
                    case TOO_LONG -> {
                        out.write(Message.tooLong(began));
                        throw new IOException("a line is too long");
                    }
                    case LINE -> {
                        out.write(Message.answer(lines.line, lines.length, began));
                        messages.incrementAndGet();
                    }
                }
            }
        } catch (IOException e) {
            failed.incrementAndGet();
        }
    }

    private String statistics() {
        String runtime = System.getProperty("java.vm.name") + " " + System.getProperty("java.version");
        return "{\"runtime\":\"" + runtime.replaceAll("[\"\\\\]", "") + "\",\"connections\":" + connections + ",\"failed\":" + failed
                + ",\"messages\":" + messages + ",\"threads\":" + threads
                + member("peak_rss_bytes", peakRss()) + member("program_bytes", programBytes()) + "}";
    }

    /** What the system does not say is left out. */
    private static String member(String name, long value) {
        return value > 0 ? ",\"" + name + "\":" + value : "";
    }

    private static long peakRss() {
        try (Stream<String> status = Files.lines(Path.of("/proc/self/status"))) {
            return status.filter(l -> l.startsWith("VmHWM:")).mapToLong(l -> Long.parseLong(l.replaceAll("[^0-9]", "")) * 1024).findFirst().orElse(0);
        } catch (IOException | UncheckedIOException e) {
            return 0;
        }
    }

    /** The executable of a native image; else the classes and the library of the JVM. */
    private static long programBytes() {
        String home = System.getProperty("java.home");
        if (home == null) {
            return size(Path.of("/proc/self/exe"));
        }
        long all = size(Path.of(home, "lib"));
        for (String part : System.getProperty("java.class.path").split(File.pathSeparator)) {
            all += size(Path.of(part));
        }
        return all;
    }

    private static long size(Path top) {
        try (Stream<Path> files = Files.walk(top)) {
            long sum = 0;
            for (Path file : (Iterable<Path>) files.filter(Files::isRegularFile)::iterator) {
                sum += Files.size(file);
            }
            return sum;
        } catch (IOException | UncheckedIOException e) {
            return 0;
        }
    }
}
