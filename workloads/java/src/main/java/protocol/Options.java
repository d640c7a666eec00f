package protocol;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/** Flags of a command line: {@code --name value}, and {@code --name} alone for switches. */
public final class Options {
    private final String usage;
    private final Map<String, String> values = new HashMap<>();

    /** Ends the program with status 4 and the usage when the flags are not right. */
    public Options(String[] args, Map<String, String> defaults, Set<String> switches, String usage) {
        this.usage = usage;
        values.putAll(defaults);
        for (int i = 0; i < args.length; i++) {
            String name = args[i].startsWith("--") ? args[i].substring(2) : "";
            if (switches.contains(name)) {
                values.put(name, "");
            } else if (!defaults.containsKey(name)) {
                throw refuse("no flag " + args[i]);
            } else if (++i == args.length) {
                throw refuse("--" + name + " wants a value");
            } else {
                values.put(name, args[i]);
            }
        }
    }

    public String text(String name) {
        return values.get(name);
    }

    public boolean on(String name) {
        return values.containsKey(name);
    }

    /** A whole number from {@code least} to {@code most}. */
    public int number(String name, int least, int most) {
        try {
            int v = Integer.parseInt(text(name));
            if (v >= least && v <= most) {
                return v;
            }
        } catch (NumberFormatException e) {
            // said below
        }
        throw refuse("--" + name + " " + text(name) + ": want a whole number from " + least + " to " + most);
    }

    /** The version of TLS. */
    public String tls() {
        String version = text("tls");
        if (version.equals("1.2") || version.equals("1.3")) {
            return version;
        }
        throw refuse("--tls " + version + ": want 1.2 or 1.3");
    }

    /** The port to listen on, or to connect to. */
    public int port(int least) {
        return number("port", least, 65_535);
    }

    private IllegalStateException refuse(String why) {
        System.err.println(why + "\n" + usage);
        System.exit(4);
        return new IllegalStateException("unreachable");
    }
}
