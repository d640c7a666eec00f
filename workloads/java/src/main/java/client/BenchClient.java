package client;

import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Phaser;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import protocol.Failure;
import protocol.Lines;
import protocol.Message;
import protocol.Options;
import protocol.Tls;

/**
 * Clients of the newline protocol, each with a connection of its own, that check every answer. The
 * harness's own client is {@code teescope-work tlsclient}; this one is for use by hand.
 */
public final class BenchClient {
    private static final String USAGE = "usage: client.BenchClient [--host localhost] [--port 8443] [--messages 100] "
            + "[--load-test [--clients 10]] [--warm 1000] [--tls 1.2|1.3] [--ca certs/server.pem] [--seed 1]\n"
            + "  --messages are those of each client; --warm messages come before and are not timed";
    private static final int TIMEOUT_MS = 60_000;
    private static final int MOST_CLIENTS = 10_000;
    private static final int MOST_MESSAGES = 1_000_000;

    private final Options options;
    private final SSLContext context;
    private final SSLParameters parameters;
    private final Phaser start;
    private final String host;
    private final int port;
    private final int messages;
    private final int warm;

    private BenchClient(Options options, int clients) throws GeneralSecurityException, IOException {
        this.options = options;
        parameters = Tls.parameters(options.tls());
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        host = options.text("host");
        port = options.port(1);
        messages = options.number("messages", 1, MOST_MESSAGES);
        warm = options.number("warm", 0, MOST_MESSAGES);
        context = Tls.client(Path.of(options.text("ca")));
        start = new Phaser(clients + 1);
    }

    public static void main(String[] args) throws Exception {
        Options options = new Options(args, Map.of("host", "localhost", "port", "8443", "messages", "100", "clients", "10", "warm", "1000",
                "tls", "1.3", "ca", "certs/server.pem", "seed", "1"), Set.of("load-test"), USAGE);
        int clients = options.on("load-test") ? options.number("clients", 1, MOST_CLIENTS) : 1;
        Failure.told("client.BenchClient", () -> System.out.println(new BenchClient(options, clients).run(clients)));
    }

    /** What one client saw, in nanoseconds. */
    private record Times(long handshake, long[] messages) {}

    private String run(int clients) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(clients);
        try {
            List<Future<Times>> running = new ArrayList<>();
            for (int k = 0; k < clients; k++) {
                SplittableRandom random = new SplittableRandom(options.number("seed", 0, Integer.MAX_VALUE) + 1_000_003L * k);
                Callable<Times> one = () -> client(random);
                running.add(pool.submit(one));
            }
            start.arriveAndAwaitAdvance();
            long began = System.nanoTime();
            List<Times> all = new ArrayList<>();
            for (Future<Times> f : running) {
                all.add(f.get());
            }
            return summary(clients, System.nanoTime() - began, all);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        } finally {
            pool.shutdownNow();
        }
    }

    private Times client(SplittableRandom random) throws GeneralSecurityException, IOException {
        boolean waiting = true; // for us, by the others
        try (SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket()) {
            long began = System.nanoTime();
            connect(socket);
            long handshake = System.nanoTime() - began;
            Lines answers = new Lines(socket.getInputStream());
            OutputStream out = socket.getOutputStream();
            for (int i = 0; i < warm; i++) {
                byte[] line = message(random, i);
                exchange(line, answer(line), out, answers);
            }
            // The answers that are wanted cost as much as the server's: they are there before the time begins.
            byte[][] lines = new byte[messages][];
            byte[][] wanted = new byte[messages][];
            for (int i = 0; i < messages; i++) {
                lines[i] = message(random, i);
                wanted[i] = answer(lines[i]);
            }
            waiting = false;
            start.arriveAndAwaitAdvance();
            long[] times = new long[messages];
            for (int i = 0; i < messages; i++) {
                times[i] = exchange(lines[i], wanted[i], out, answers);
            }
            return new Times(handshake, times);
        } finally {
            if (waiting) {
                start.arriveAndDeregister();
            }
        }
    }

    private void connect(SSLSocket socket) throws Failure {
        try {
            socket.connect(new InetSocketAddress(host, port), TIMEOUT_MS);
            socket.setSoTimeout(TIMEOUT_MS);
            socket.setTcpNoDelay(true);
            socket.setSSLParameters(parameters);
            socket.startHandshake();
        } catch (IOException e) {
            throw new Failure("connect to " + host + ":" + port, e, "start the server, with a thread for each client (--threads), and give its --host, --port and --tls,"
                    + " and its certificate as --ca");
        }
    }

    private static byte[] answer(byte[] line) {
        return Message.answer(line, line.length - 1, System.nanoTime());
    }

    private static long exchange(byte[] line, byte[] wanted, OutputStream out, Lines answers) throws IOException {
        long began = System.nanoTime();
        out.write(line);
        Lines.Found found = answers.next();
        long took = System.nanoTime() - began;
        if (found != Lines.Found.LINE) {
            throw new IOException("the server hung up");
        }
        byte[] got = Arrays.copyOf(answers.line, answers.length + 1);
        got[answers.length] = '\n';
        if (!Message.same(got, wanted)) {
            throw new IOException("wrong answer: " + new String(got, StandardCharsets.ISO_8859_1));
        }
        return took;
    }

    private static byte[] message(SplittableRandom random, int i) {
        StringBuilder b = new StringBuilder("id=" + i + ";sensor=" + random.nextInt(64) + ";Data=");
        for (int n = 50 + random.nextInt(200); n > 0; n--) {
            b.append((char) ('a' + random.nextInt(26)));
        }
        return b.append('\n').toString().getBytes(StandardCharsets.ISO_8859_1);
    }

    private String summary(int clients, long nanos, List<Times> all) {
        long[] times = all.stream().flatMapToLong(t -> Arrays.stream(t.messages())).sorted().toArray();
        long[] handshakes = all.stream().mapToLong(Times::handshake).sorted().toArray();
        return String.format(Locale.ROOT,
                "clients %d, messages %d, seconds %.6f, messages per second %.0f%n"
                        + "answer ms: median %.6f, p99 %.6f, largest %.6f%n"
                        + "handshake ms: median %.6f, largest %.6f%n"
                        + "wrong answers 0",
                clients, times.length, nanos / 1e9, times.length / (nanos / 1e9),
                at(times, 0.5), at(times, 0.99), at(times, 1), at(handshakes, 0.5), at(handshakes, 1));
    }

    /** The smallest value that at least this share does not exceed, in milliseconds. */
    private static double at(long[] sorted, double share) {
        return sorted[Math.max(0, (int) Math.ceil(share * sorted.length) - 1)] / 1e6;
    }
}
