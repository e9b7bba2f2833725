package client;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/** Does what lines on standard input say, and answers each with one line. */
final class Lines {
    private Lines() {}

    /** What can be asked for: a command, and the line with its arguments; the answer is JSON. */
    interface Commands {
        String done(String what, String line) throws Exception;
    }

    /** Ends with the command `stop`, or when nobody asks any more. */
    static void run(Commands commands) throws IOException {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String number = field(line, "ask");
            String what = field(line, "do");
            String answer;
            try {
                answer = "\"result\": " + commands.done(what, line);
            } catch (Exception problem) {
                answer = "\"error\": " + text(problem.toString());
            }
            say("\"answer\": " + number + ", " + answer);
            if (what.equals("stop")) {
                System.exit(0);
            }
        }
        Runtime.getRuntime().halt(1);
    }

    static synchronized void say(String members) {
        System.out.println("{" + members + "}");
        System.out.flush();
    }

    static String object(Map<String, String> pairs) {
        List<String> members = new ArrayList<>();
        pairs.forEach((name, value) -> members.add(text(name) + ": " + text(value)));
        return "{" + String.join(", ", members) + "}";
    }

    static String text(String value) {
        return '"' + value.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ") + '"';
    }

    /** A member of the line, which is flat JSON without escapes. */
    static String field(String line, String name) {
        var found = Pattern.compile('"' + name + "\": \"?([^\",}]*)").matcher(line);
        return found.find() ? found.group(1) : "";
    }
}
