package protocol;

import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.CRC32;

/**
 * The work for one line and the answer to it. {@code internal/worker/ack.go} does the same with the
 * same answers and says what they mean; a test puts 10,000 lines through both.
 */
public final class Message {
    /** Bytes of the largest line, without its end. */
    public static final int MOST = 8192;

    private static final int STEPS_PER_BYTE = 100;
    private static final int MOST_STEPS = 100_000;
    // What the Go server's [A-Za-z]+=[0-9]+ finds. That one's time is linear in the line; here a run
    // of letters without "=" would be read again from each of its letters, and backwards.
    private static final Pattern PAIR = Pattern.compile("(?<![A-Za-z])[A-Za-z]++=[0-9]++");

    private Message() {}

    /** The answer to a line, with its newline. {@code began} is System.nanoTime() when the line was there. */
    public static byte[] answer(byte[] line, int length, long began) {
        String status = length == 0 ? "EMPTY" : work(line, length);
        return text(checksum(line, length), length, status, System.nanoTime() - began);
    }

    /** The answer to a line of more than {@link #MOST} bytes. */
    public static byte[] tooLong(long began) {
        return text(0, MOST, "TOO_LONG", System.nanoTime() - began);
    }

    /** Whether two answers differ in nothing but the time. */
    public static boolean same(byte[] a, byte[] b) {
        return timeless(a).equals(timeless(b));
    }

    private static String timeless(byte[] answer) {
        return new String(answer, StandardCharsets.ISO_8859_1).replaceFirst("\\|processing_time_ms=[0-9.]+\\|", "|");
    }

    private static byte[] text(int checksum, int size, String status, long nanos) {
        return new StringBuilder(200)
                .append("ACK|checksum=").append(hex(checksum))
                .append("|size=").append(size)
                .append("|processing_time_ms=").append(decimal(nanos, 6))
                .append("|status=").append(status).append('\n')
                .toString().getBytes(StandardCharsets.ISO_8859_1);
    }

    private static String work(byte[] line, int n) {
        long sum = 0;
        long squares = 0;
        byte[] upper = new byte[n];
        for (int i = 0; i < n; i++) {
            int c = line[i] & 0xff;
            sum += c;
            squares += (long) c * c;
            upper[i] = (byte) ('a' <= c && c <= 'z' ? c - ('a' - 'A') : c);
        }
        int pairs = 0;
        Matcher found = PAIR.matcher(new String(line, 0, n, StandardCharsets.ISO_8859_1));
        while (found.find()) {
            pairs++;
        }
        return "OK,upper=" + hex(checksum(upper, n))
                + ",pairs=" + pairs
                + ",mean=" + decimal(sum * 1000 / n, 3)
                + ",variance=" + decimal((n * squares - sum * sum) * 1000 / ((long) n * n), 3)
                + ",walk=" + HexFormat.of().toHexDigits(Double.doubleToLongBits(walk(line, n)));
    }

    private static double walk(byte[] line, int n) {
        double x = 0.5;
        int at = 0;
        for (int i = Math.min(STEPS_PER_BYTE * n, MOST_STEPS); i > 0; i--) {
            x = Math.sqrt(x * 0.75 + (line[at] & 0xff));
            if (++at == n) {
                at = 0;
            }
        }
        return x;
    }

    private static int checksum(byte[] b, int n) {
        CRC32 crc = new CRC32();
        crc.update(b, 0, n);
        return (int) crc.getValue();
    }

    private static String hex(int v) {
        return HexFormat.of().toHexDigits(v);
    }

    /** v / 10^digits, with all of the digits. */
    private static String decimal(long v, int digits) {
        String s = Long.toString(v);
        if (s.length() <= digits) {
            s = "0".repeat(digits + 1 - s.length()) + s;
        }
        return s.substring(0, s.length() - digits) + "." + s.substring(s.length() - digits);
    }
}
