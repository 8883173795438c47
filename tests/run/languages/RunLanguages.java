import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.stream.IntStream;

/**
 * A web server of a folder's files, and a client that gets one by 20 connections at once (a selector's), and then by a socket that
 * waits: for tests/run/languages/languages.sh.
 *
 * <pre>
 * java RunLanguages.java serve FOLDER PORT
 * java RunLanguages.java get URL FILE
 * </pre>
 */
public class RunLanguages {
    public static void main(String[] words) throws Exception {
        if (words[0].equals("serve")) {
            serve(Path.of(words[1]), Integer.parseInt(words[2]));
        } else {
            get(URI.create(words[1]), Files.readAllBytes(Path.of(words[2])));
        }
    }

    private static void serve(Path folder, int port) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(port), 100);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            byte[] file = Files.readAllBytes(folder.resolve(exchange.getRequestURI().getPath().substring(1)));
            exchange.sendResponseHeaders(200, file.length);
            exchange.getResponseBody().write(file);
            exchange.close();
        });
        server.start();
    }

    private static void get(URI url, byte[] wanted) throws Exception {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        HttpRequest request = HttpRequest.newBuilder(url).build();
        CompletableFuture<?>[] all = IntStream.range(0, 20)
            .mapToObj(n -> client.sendAsync(request, BodyHandlers.ofByteArray()).thenAccept(answer -> check(answer.body(), wanted)))
            .toArray(CompletableFuture[]::new);
        CompletableFuture.allOf(all).get();
        check(url.toURL().openStream().readAllBytes(), wanted);
        System.exit(0);
    }

    private static void check(byte[] got, byte[] wanted) {
        if (!Arrays.equals(got, wanted)) {
            throw new IllegalStateException(got.length + " other bytes");
        }
    }
}
