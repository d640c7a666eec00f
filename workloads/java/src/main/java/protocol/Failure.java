package protocol;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.NoSuchFileException;
import java.security.GeneralSecurityException;

/** What kept a program from its work, in one line: what was tried, what happened, and what to do. */
public final class Failure extends IOException {
    private static final long serialVersionUID = 1;
    private static final int STATUS = 1;

    public Failure(String tried, Exception happened, String remedy) {
        super(tried + ": " + words(happened) + "; " + remedy, happened);
    }

    /** What a program does. */
    public interface Program {
        void run() throws Exception;
    }

    /**
     * Runs a program, and ends it with status 1 and a line when files, keys or the network keep it
     * from its work. All else that is thrown is a bug, which keeps its stack trace.
     */
    public static void told(String name, Program program) throws Exception {
        try {
            program.run();
        } catch (IOException | GeneralSecurityException e) {
            System.err.println(name + ": " + words(e));
            System.exit(STATUS);
        }
    }

    /** The message of some exceptions is the file's name alone, and that of others has several lines. */
    private static String words(Exception e) {
        if (e instanceof NoSuchFileException) {
            return "there is no such file";
        }
        if (e instanceof AccessDeniedException) {
            return "this user may not read it";
        }
        String said = e.getMessage();
        return said == null ? e.getClass().getSimpleName() : said.strip().replaceAll("\\s+", " ");
    }
}
