// Writes what ExtractNewRecordState of Debezium 3.6.1 makes of changes, one JSON object a line: the
// mode of deletions, what the change is, and key and value without schemas.
import io.debezium.data.Envelope;
import io.debezium.transforms.ExtractNewRecordState;
import java.time.Instant;
import java.util.*;
import org.apache.kafka.connect.data.*;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;

public class Flattened {
    static final String TOPIC = "shop.public.orders";
    static final JsonConverter CONVERTER = new JsonConverter();

    static String json(Schema schema, Object value) {
        byte[] bytes = CONVERTER.fromConnectData(TOPIC, schema, value);
        return bytes == null ? "null" : new String(bytes, java.nio.charset.StandardCharsets.UTF_8);
    }

    static void line(String mode, String name, Struct key, Struct value) {
        ExtractNewRecordState<SourceRecord> step = new ExtractNewRecordState<>();
        step.configure(Map.of("delete.tombstone.handling.mode", mode, "add.fields", "op,source.ts_ms,lsn"));
        SourceRecord record = new SourceRecord(Map.of(), Map.of(), TOPIC, 0,
            key == null ? null : key.schema(), key, value == null ? null : value.schema(), value);
        SourceRecord made = step.apply(record);
        String out = made == null ? "" : ",\"key\":" + json(made.keySchema(), made.key())
            + ",\"value\":" + json(made.valueSchema(), made.value());
        System.out.println("{\"mode\":\"" + mode + "\",\"name\":\"" + name + "\"" + out + "}");
    }

    public static void main(String[] arguments) {
        CONVERTER.configure(Map.of("schemas.enable", false), false);
        Schema keys = SchemaBuilder.struct().name(TOPIC + ".Key").field("id", Schema.INT64_SCHEMA).build();
        Schema rows = SchemaBuilder.struct().optional().name(TOPIC + ".Value")
            .field("id", Schema.INT64_SCHEMA).field("note", Schema.OPTIONAL_STRING_SCHEMA).build();
        Schema sources = SchemaBuilder.struct().name("io.debezium.connector.postgresql.Source")
            .field("connector", Schema.STRING_SCHEMA).field("ts_ms", Schema.INT64_SCHEMA)
            .field("table", Schema.STRING_SCHEMA).field("lsn", Schema.OPTIONAL_INT64_SCHEMA).build();
        Envelope envelope = Envelope.defineSchema().withName(Envelope.schemaName(TOPIC))
            .withRecord(rows).withSource(sources).build();
        Instant at = Instant.parse("2026-11-21T04:00:00.123456Z");
        Struct source = new Struct(sources).put("connector", "postgresql").put("ts_ms", at.toEpochMilli())
            .put("table", "orders").put("lsn", 24023128L);
        Struct key = new Struct(keys).put("id", 1L);
        Struct row = new Struct(rows).put("id", 1L).put("note", "a");
        Struct known = new Struct(rows).put("id", 1L);
        Schema beats = SchemaBuilder.struct().name("io.debezium.connector.common.Heartbeat")
            .field("ts_ms", Schema.INT64_SCHEMA).build();
        for (String mode : List.of("rewrite", "rewrite-with-tombstone", "tombstone", "delete-to-tombstone", "drop")) {
            line(mode, "create", key, envelope.create(row, source, at));
            line(mode, "read", key, envelope.read(row, source, at));
            line(mode, "update", key, envelope.update(row, known, source, at));
            line(mode, "delete", key, envelope.delete(row, source, at));
            line(mode, "delete of a known key", key, envelope.delete(known, source, at));
            line(mode, "tombstone", key, null);
            line(mode, "truncate", null, envelope.truncate(source, at));
            line(mode, "heartbeat", null, new Struct(beats).put("ts_ms", at.toEpochMilli()));
        }
    }
}
