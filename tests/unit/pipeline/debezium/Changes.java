// Writes changes with the classes of Debezium 3.6.1 and the JsonConverter of Kafka 4.3.0, one JSON
// object a line: what it is, and key and value with schemas and without.
import io.debezium.data.*;
import io.debezium.data.Enum;
import io.debezium.data.geometry.Point;
import io.debezium.time.*;
import io.debezium.transforms.ExtractNewRecordState;
import java.math.BigDecimal;
import java.time.Instant;
import java.util.*;
import org.apache.kafka.connect.data.*;
import org.apache.kafka.connect.json.JsonConverter;

public class Changes {
    static final String TOPIC = "shop.public.orders";
    static final JsonConverter[] CONVERTERS = new JsonConverter[2];

    static String json(int c, Schema schema, Object value) {
        byte[] bytes = CONVERTERS[c].fromConnectData(TOPIC, schema, value);
        return bytes == null ? "null" : new String(bytes, java.nio.charset.StandardCharsets.UTF_8);
    }

    static void line(String name, Struct key, Struct value) {
        StringBuilder out = new StringBuilder("{\"name\":\"" + name + "\"");
        for (int c = 0; c < 2; c++) {
            String suffix = c == 0 ? "" : "_with_schema";
            out.append(",\"key" + suffix + "\":" + json(c, key == null ? null : key.schema(), key));
            out.append(",\"value" + suffix + "\":" + json(c, value == null ? null : value.schema(), value));
        }
        System.out.println(out.append("}"));
    }

    public static void main(String[] arguments) {
        for (int c = 0; c < 2; c++) {
            CONVERTERS[c] = new JsonConverter();
            CONVERTERS[c].configure(Map.of("schemas.enable", c == 1), false);
        }
        Schema keys = SchemaBuilder.struct().name(TOPIC + ".Key").field("id", Schema.INT64_SCHEMA).build();
        Schema rows = SchemaBuilder.struct().optional().name(TOPIC + ".Value")
            .field("id", Schema.INT64_SCHEMA)
            .field("price", Decimal.builder(2).optional().build())
            .field("day", io.debezium.time.Date.builder().optional().build())
            .field("ms", io.debezium.time.Timestamp.builder().optional().build())
            .field("us", MicroTimestamp.builder().optional().build())
            .field("ns", NanoTimestamp.builder().optional().build())
            .field("zoned", ZonedTimestamp.builder().optional().build())
            .field("state", Enum.builder("open,paid").optional().build())
            .field("flags", Bits.builder(10).optional().build())
            .field("place", Point.builder().optional().build())
            .field("uid", Uuid.builder().optional().build())
            .field("note", Schema.OPTIONAL_STRING_SCHEMA)
            .build();
        Schema sources = SchemaBuilder.struct().name("io.debezium.connector.postgresql.Source")
            .field("connector", Schema.STRING_SCHEMA)
            .field("ts_ms", Schema.INT64_SCHEMA)
            .field("table", Schema.STRING_SCHEMA)
            .field("lsn", Schema.OPTIONAL_INT64_SCHEMA)
            .build();
        Envelope envelope = Envelope.defineSchema().withName(Envelope.schemaName(TOPIC))
            .withRecord(rows).withSource(sources).build();
        Instant at = Instant.parse("2026-11-21T04:00:00.123456Z");
        Struct source = new Struct(sources).put("connector", "postgresql").put("ts_ms", at.toEpochMilli())
            .put("table", "orders").put("lsn", 24023128L);
        Struct key = new Struct(keys).put("id", 1L);
        long micros = at.getEpochSecond() * 1_000_000 + 123456;
        Struct row = new Struct(rows).put("id", 1L).put("price", new BigDecimal("-123.45")).put("day", 20778)
            .put("ms", at.toEpochMilli()).put("us", micros).put("ns", micros * 1000 + 789)
            .put("zoned", "2026-11-21T04:00:00.123456Z").put("state", "paid").put("flags", new byte[] {5, 2})
            .put("place", Point.createValue(Point.builder().optional().build(), 1.5, -2.0))
            .put("uid", "00000000-0000-4000-8000-000000000001").put("note", "é\n\"q\"");
        Struct large = new Struct(rows).put("id", 1L).put("note", "__debezium_unavailable_value");
        Struct known = new Struct(rows).put("id", 1L);
        line("create", key, envelope.create(row, source, at));
        line("read", key, envelope.read(row, source, at));
        line("update", key, envelope.update(row, known, source, at));
        line("update without before", key, envelope.update(null, known, source, at));
        line("update of another value", key, envelope.update(null, large, source, at));
        line("delete", key, envelope.delete(row, source, at));
        line("delete without before", key, new Struct(envelope.schema()).put("op", "d").put("source", source));
        line("tombstone", key, null);
        line("truncate", null, envelope.truncate(source, at));
        Schema beats = SchemaBuilder.struct().name("io.debezium.connector.common.Heartbeat")
            .field("ts_ms", Schema.INT64_SCHEMA).build();
        line("heartbeat", null, new Struct(beats).put("ts_ms", at.toEpochMilli()));
    }
}
