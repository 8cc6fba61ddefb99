// Prints texts of documents and keys by the JsonSerialization of Debezium 3.6.1's connector for
// MongoDB, one JSON object a line.
package io.debezium.connector.mongodb;

import java.util.List;
import org.bson.*;
import org.bson.types.*;

public class Documents {
    static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    static void line(String name, BsonValue id, BsonValue value) {
        JsonSerialization json = new JsonSerialization();
        BsonDocument document = new BsonDocument("_id", id).append("v", value);
        System.out.println("{\"name\":" + quoted(name) + ",\"key\":"
            + quoted(json.getDocumentId(new BsonDocument("_id", id)))
            + ",\"after\":" + quoted(json.getDocumentValue(document)) + "}");
    }

    public static void main(String[] arguments) {
        BsonValue id = new BsonObjectId(new ObjectId("6560f3c29c1d4b0012ab34cd"));
        line("int32", id, new BsonInt32(-5));
        line("int64", new BsonInt64(7), new BsonInt64(Long.MAX_VALUE));
        line("double", new BsonString("k"), new BsonDouble(1.5));
        line("nan", id, new BsonDouble(Double.NaN));
        line("decimal", id, new BsonDecimal128(Decimal128.parse("1.50")));
        line("date", id, new BsonDateTime(1795233600001L));
        line("binary", id, new BsonBinary(new byte[] {1, 2}));
        line("uuid", id, new BsonBinary(java.util.UUID.fromString("00000000-0000-4000-8000-000000000001")));
        line("null", id, BsonNull.VALUE);
        line("undefined", id, new BsonUndefined());
        line("symbol", id, new BsonSymbol("s"));
        line("timestamp", id, new BsonTimestamp(1, 2));
        line("nested", id, new BsonDocument("a", new BsonArray(List.of(new BsonInt64(1), new BsonDocument("b", id)))));
    }
}
