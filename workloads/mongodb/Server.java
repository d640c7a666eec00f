package teescope;

import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import de.bwaldvogel.mongo.bson.Document;
import io.netty.channel.Channel;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.LongAdder;

/**
 * mongo-java-server with its data in memory, under MongoDB's protocol. It adds what teescope checks a load by and the
 * library does not count: the number of queries, and the CPU time of the process.
 */
public final class Server extends MemoryBackend {
    /** Clock ticks per second in /proc: USER_HZ, which is 100 on every architecture of Linux (proc(5)). */
    private static final long TICK_MICROSECONDS = 1_000_000 / 100;

    private final LongAdder finds = new LongAdder();

    @Override
    public Document handleCommand(Channel channel, String database, String command, Document query) {
        if (command.equals("find")) {
            finds.increment();
        }
        return super.handleCommand(channel, database, command, query);
    }

    /** Under the names that MongoDB uses; the version says that this is not MongoDB. */
    @Override
    public Document getServerStatus() {
        Document status = super.getServerStatus();
        status.put("version", "mongo-java-server " + Server.class.getPackage().getImplementationVersion());
        status.put("metrics", new Document("commands", new Document("find", new Document("total", finds.sum()))));
        try {
            // Fields after the name in brackets, which may have blanks: utime and stime are 14 and 15 of all.
            String line = Files.readString(Path.of("/proc/self/stat"));
            String[] fields = line.substring(line.lastIndexOf(')') + 2).split(" ");
            status.put("extra_info", new Document("user_time_us", Long.parseLong(fields[11]) * TICK_MICROSECONDS)
                    .append("system_time_us", Long.parseLong(fields[12]) * TICK_MICROSECONDS));
        } catch (java.io.IOException | RuntimeException e) {
            // Under a library OS: the times are then missing, which the result says.
        }
        return status;
    }

    public static void main(String[] args) throws InterruptedException {
        int port = args.length == 2 && args[1].matches("\\d{1,5}") ? Integer.parseInt(args[1]) : -1;
        if (port < 0 || port > 65535) {
            System.err.println("usage: java -jar mongo-java-server.jar ADDRESS PORT");
            System.exit(4);
        }
        MongoServer server = new MongoServer(new Server());
        try {
            server.bind(new InetSocketAddress(args[0], port));
        } catch (Exception e) { // the library throws checked ones that it does not declare
            System.err.println("mongo-java-server: listen on " + args[0] + ":" + port + ": " + e.getMessage());
            System.exit(1);
        }
        System.out.println("listening " + args[0] + ":" + server.getLocalAddress().getPort());
        System.out.println("ready");
        new CountDownLatch(1).await();
    }
}
