package client;

import com.netflix.appinfo.ApplicationInfoManager;
import com.netflix.appinfo.InstanceInfo;
import com.netflix.appinfo.InstanceInfo.InstanceStatus;
import com.netflix.discovery.EurekaClient;
import com.netflix.discovery.shared.Application;
import com.netflix.discovery.shared.Applications;
import com.netflix.discovery.shared.transport.EurekaHttpClient;
import com.netflix.discovery.shared.transport.EurekaHttpResponse;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;

/** Does what lines on standard input say, and answers each with one line. */
final class Talk {
    private final EurekaClient client;
    private final ApplicationInfoManager self;
    private final EurekaHttpClient wire;

    /** A client that runs, and a transport of the same kind that is called directly. */
    Talk(EurekaClient client, ApplicationInfoManager self, EurekaHttpClient wire) {
        this.client = client;
        this.self = self;
        this.wire = wire;
    }

    void run() throws Exception {
        say("\"started\": true, \"over\": " + text(wire.getClass().getSimpleName()));
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String number = field(line, "ask");
            String what = field(line, "do");
            String answer;
            try {
                answer = "\"result\": " + done(what, line);
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

    private String done(String what, String line) throws Exception {
        switch (what) {
            case "held":
                return held(client.getApplications());
            case "status":
                self.setInstanceStatus(InstanceStatus.valueOf(field(line, "value")));
                return "true";
            case "metadata":
                self.registerAppMetadata(Map.of("key", field(line, "value")));
                return "true";
            case "calls":
                return calls(field(line, "id"));
            case "stop":
                client.shutdown();
                return "true";
            default:
                throw new IllegalArgumentException(what);
        }
    }

    /** Everything that the client holds, by application and id. */
    private static String held(Applications all) {
        var found = new TreeMap<String, String>();
        for (Application app : all.getRegisteredApplications()) {
            for (InstanceInfo one : app.getInstances()) {
                String told = one.getStatus() + " " + one.getMetadata().getOrDefault("key", "");
                found.put(app.getName() + "/" + one.getId(), told.trim());
            }
        }
        return object(found);
    }

    /** Calls every method of the transport with an instance of its own: what each answers. */
    private String calls(String id) throws Exception {
        InstanceInfo own = self.getInfo();
        InstanceInfo one = InstanceInfo.Builder.newBuilder()
            .setInstanceId(id).setAppName("DIRECT").setHostName("direct.example").setIPAddr("10.0.0.9").setPort(81)
            .setVIPAddress("direct").setSecureVIPAddress("direct-s").setDataCenterInfo(own.getDataCenterInfo())
            .setLeaseInfo(own.getLeaseInfo()).setStatus(InstanceStatus.UP).add("a_b", "c$d").build();
        one.setLastDirtyTimestamp(1000L);
        var told = new ArrayList<String>();
        told.add(call("unknown", () -> wire.sendHeartBeat("DIRECT", id, one, null)));
        told.add(call("register", () -> wire.register(one)));
        told.add(call("beat", () -> wire.sendHeartBeat("DIRECT", id, one, null)));
        told.add(call("overridden beat", () -> wire.sendHeartBeat("DIRECT", id, one, InstanceStatus.OUT_OF_SERVICE)));
        told.add(call("application", () -> wire.getApplications(), all -> present((Applications) all, id)));
        told.add(call("delta", () -> wire.getDelta(), all -> present((Applications) all, id)));
        told.add(call("vip", () -> wire.getVip("direct"), all -> present((Applications) all, id)));
        told.add(call("svip", () -> wire.getSecureVip("direct-s"), all -> present((Applications) all, id)));
        told.add(call("no vip", () -> wire.getVip("nobody"), all -> present((Applications) all, id)));
        told.add(call("app", () -> wire.getApplication("DIRECT"), app -> "" + ((Application) app).size()));
        told.add(call("instance", () -> wire.getInstance("DIRECT", id), Talk::seen));
        told.add(call("by id", () -> wire.getInstance(id), Talk::seen));
        told.add(call("out", () -> wire.statusUpdate("DIRECT", id, InstanceStatus.OUT_OF_SERVICE, one)));
        told.add(call("is out", () -> wire.getInstance("DIRECT", id), Talk::seen));
        told.add(call("back", () -> wire.deleteStatusOverride("DIRECT", id, one)));
        told.add(call("is back", () -> wire.getInstance("DIRECT", id), Talk::seen));
        told.add(call("beat again", () -> wire.sendHeartBeat("DIRECT", id, one, null)));
        told.add(call("cancel", () -> wire.cancel("DIRECT", id)));
        told.add(call("cancel again", () -> wire.cancel("DIRECT", id)));
        told.add(call("no app", () -> wire.getApplication("DIRECT")));
        return "[" + String.join(", ", told) + "]";
    }

    private static String present(Applications all, String id) {
        return all.getRegisteredApplications().stream().anyMatch(app -> app.getByInstanceId(id) != null) ? "has it" : "has it not";
    }

    private static String seen(Object one) {
        InstanceInfo info = (InstanceInfo) one;
        return info.getId() + " " + info.getStatus() + " " + info.getMetadata().get("a_b");
    }

    private interface Shown {
        String of(Object entity);
    }

    private static String call(String name, Callable<EurekaHttpResponse<?>> method) throws Exception {
        return call(name, method, entity -> "an entity");
    }

    private static String call(String name, Callable<EurekaHttpResponse<?>> method, Shown shown) throws Exception {
        EurekaHttpResponse<?> answer = method.call();
        String entity = answer.getEntity() == null ? "" : " " + shown.of(answer.getEntity());
        return text(name + ": " + answer.getStatusCode() + entity);
    }

    private static String object(Map<String, String> pairs) {
        List<String> members = new ArrayList<>();
        pairs.forEach((name, value) -> members.add(text(name) + ": " + text(value)));
        return "{" + String.join(", ", members) + "}";
    }

    private static String text(String value) {
        return '"' + value.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ") + '"';
    }

    /** A member of the line, which is flat JSON without escapes. */
    private static String field(String line, String name) {
        var found = java.util.regex.Pattern.compile('"' + name + "\": \"?([^\",}]*)").matcher(line);
        return found.find() ? found.group(1) : "";
    }

    private static synchronized void say(String members) {
        System.out.println("{" + members + "}");
        System.out.flush();
    }
}
