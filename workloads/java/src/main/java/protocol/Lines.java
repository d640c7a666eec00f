package protocol;

import java.io.IOException;
import java.io.InputStream;

/** Lines of bytes from a stream. Only a newline ends one; what follows the last newline is none. */
public final class Lines {
    private final InputStream in;
    private final byte[] buffer = new byte[Message.MOST + 1];
    private int from;
    private int to;

    /** The line that {@link #next} found, and its length. */
    public final byte[] line = new byte[Message.MOST + 1];
    public int length;

    public Lines(InputStream in) {
        this.in = in;
    }

    /** How the search for a line ended. */
    public enum Found { LINE, TOO_LONG, END }

    public Found next() throws IOException {
        length = 0;
        for (;;) {
            while (from < to) {
                byte b = buffer[from++];
                if (b == '\n') {
                    return Found.LINE;
                }
                line[length++] = b;
                if (length > Message.MOST) {
                    return Found.TOO_LONG;
                }
            }
            from = 0;
            to = in.read(buffer);
            if (to < 0) {
                to = 0;
                return Found.END;
            }
        }
    }
}
