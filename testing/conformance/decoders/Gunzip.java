import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.zip.GZIPInputStream;

/** Tells of each file what the platform's decoder reads of it: its digest and length. */
class Gunzip {
    public static void main(String[] names) throws Exception {
        for (String name : names) {
            byte[] text;
            try (InputStream file = new Slow(Files.newInputStream(Path.of(name)))) {
                text = new GZIPInputStream(file).readAllBytes();
            }
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(text);
            System.out.println(HexFormat.of().formatHex(digest) + " " + text.length);
        }
    }

    /** As a connection gives bytes: a few at a time, and never known how many. */
    private static class Slow extends FilterInputStream {
        Slow(InputStream in) {
            super(in);
        }

        @Override
        public int read(byte[] bytes, int start, int length) throws IOException {
            return super.read(bytes, start, Math.min(length, 1000));
        }

        @Override
        public int available() {
            return 0;
        }
    }
}
