//! The columns of lines of JSON, and a file of them.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{
    SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter,
};
use parquet::schema::types::{Type, TypePtr};
use serde_json::{Map, Value};

/// What all values of a column fit into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Truth,
    Whole,
    /// Whole, and beyond what has a sign.
    Unsigned,
    Number,
    /// Text as it is, anything else as JSON.
    Text,
}

impl Kind {
    /// Of values that are there.
    fn of(values: &[Option<&Value>]) -> Self {
        let all = |fits: fn(&Value) -> bool| values.iter().flatten().all(|value| fits(value));
        if values.iter().all(Option::is_none) {
            // A time of something that never happened.
            Self::Number
        } else if all(Value::is_boolean) {
            Self::Truth
        } else if all(Value::is_i64) {
            Self::Whole
        } else if all(Value::is_u64) {
            Self::Unsigned
        } else if all(Value::is_number) {
            Self::Number
        } else {
            Self::Text
        }
    }

    fn physical(self) -> Physical {
        match self {
            Self::Truth => Physical::BOOLEAN,
            Self::Whole | Self::Unsigned => Physical::INT64,
            Self::Number => Physical::DOUBLE,
            Self::Text => Physical::BYTE_ARRAY,
        }
    }

    fn logical(self) -> Option<LogicalType> {
        match self {
            Self::Text => Some(LogicalType::String),
            Self::Unsigned => Some(LogicalType::integer(64, false)),
            Self::Truth | Self::Whole | Self::Number => None,
        }
    }
}

/// A column: what each row has there, if anything.
struct Column<'r> {
    name: &'r str,
    kind: Kind,
    values: Vec<Option<&'r Value>>,
}

impl<'r> Column<'r> {
    fn new(name: &'r str, values: Vec<Option<&'r Value>>) -> Self {
        let values: Vec<_> = values
            .into_iter()
            .map(|value| value.filter(|value| !value.is_null()))
            .collect();
        let kind = Kind::of(&values);
        Self { name, kind, values }
    }

    fn schema(&self) -> Result<TypePtr> {
        let schema = Type::primitive_type_builder(self.name, self.kind.physical())
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(self.kind.logical());
        Ok(Arc::new(schema.build()?))
    }

    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> Result<()> {
        match self.kind {
            Kind::Truth => self.write_as::<BoolType>(writer, |value| value.as_bool()),
            Kind::Whole => self.write_as::<Int64Type>(writer, Value::as_i64),
            Kind::Unsigned => {
                self.write_as::<Int64Type>(writer, |value| value.as_u64().map(u64::cast_signed))
            }
            Kind::Number => self.write_as::<DoubleType>(writer, Value::as_f64),
            Kind::Text => self.write_as::<ByteArrayType>(writer, |value| {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                Some(ByteArray::from(text.into_bytes()))
            }),
        }
    }

    fn write_as<T: DataType>(
        &self,
        writer: &mut SerializedColumnWriter<'_>,
        convert: impl Fn(&Value) -> Option<T::T>,
    ) -> Result<()> {
        let values: Vec<T::T> = self
            .values
            .iter()
            .flatten()
            .filter_map(|one| convert(one))
            .collect();
        let levels: Vec<i16> = self
            .values
            .iter()
            .map(|one| i16::from(one.is_some()))
            .collect();
        writer
            .typed::<T>()
            .write_batch(&values, Some(&levels), None)?;
        Ok(())
    }
}

/// The keys of objects, in the order in which they come first.
fn keys<'r>(rows: &[Option<&'r Map<String, Value>>]) -> Vec<&'r str> {
    let mut keys: Vec<&str> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for key in rows.iter().flatten().flat_map(|row| row.keys()) {
        if seen.insert(key) {
            keys.push(key);
        }
    }
    keys
}

fn columns<'r>(rows: &[Option<&'r Map<String, Value>>]) -> Vec<Column<'r>> {
    let values = |key: &str| {
        rows.iter()
            .map(|row| row.and_then(|row| row.get(key)))
            .collect()
    };
    keys(rows)
        .into_iter()
        .map(|key| Column::new(key, values(key)))
        .collect()
}

/// A field of the file: a column, or several that belong together under a name.
enum Field<'r> {
    One(Column<'r>),
    Several(&'r str, Vec<Column<'r>>),
}

impl<'r> Field<'r> {
    fn new(column: Column<'r>) -> Self {
        let is_object = |value: &&Value| value.is_object();
        if column.values.is_empty() || !column.values.iter().flatten().all(is_object) {
            return Self::One(column);
        }
        let objects: Vec<_> = column
            .values
            .iter()
            .map(|value| value.and_then(Value::as_object))
            .collect();
        let inner = columns(&objects);
        if inner.is_empty() {
            return Self::One(column);
        }
        Self::Several(column.name, inner)
    }

    fn schema(&self) -> Result<TypePtr> {
        match self {
            Self::One(column) => column.schema(),
            Self::Several(name, columns) => {
                let fields = columns.iter().map(Column::schema).collect::<Result<_>>()?;
                let group = Type::group_type_builder(name)
                    .with_repetition(Repetition::REQUIRED)
                    .with_fields(fields);
                Ok(Arc::new(group.build()?))
            }
        }
    }

    fn columns(&self) -> &[Column<'r>] {
        match self {
            Self::One(column) => std::slice::from_ref(column),
            Self::Several(_, columns) => columns,
        }
    }
}

/// A file with these rows.
pub(super) fn encode(rows: &[&Map<String, Value>]) -> Result<Vec<u8>> {
    let rows: Vec<_> = rows.iter().map(|row| Some(*row)).collect();
    let fields: Vec<Field<'_>> = columns(&rows).into_iter().map(Field::new).collect();
    let types = fields.iter().map(Field::schema).collect::<Result<_>>()?;
    let schema = Arc::new(
        Type::group_type_builder("sweep")
            .with_fields(types)
            .build()?,
    );
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut file, schema, properties)?;
    let mut group = writer.next_row_group()?;
    for column in fields.iter().flat_map(Field::columns) {
        write_next(&mut group, column)?;
    }
    group.close()?;
    writer.close()?;
    Ok(file)
}

fn write_next<W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: &Column<'_>,
) -> Result<()> {
    let mut writer = group.next_column()?.expect("the schema has this column");
    column.write(&mut writer)?;
    writer.close()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Field, Row};
    use serde_json::{Map, Value, json};

    use super::encode;

    /// What a reader finds, as JSON again.
    fn value(field: &Field) -> Value {
        match field {
            Field::Null => Value::Null,
            Field::Bool(value) => json!(value),
            Field::Long(value) => json!(value),
            Field::ULong(value) => json!(value),
            Field::Double(value) => json!(value),
            Field::Str(value) => json!(value),
            Field::Group(row) => Value::Object(object(row)),
            other => panic!("no column is like {other:?}"),
        }
    }

    fn object(row: &Row) -> Map<String, Value> {
        let columns = row.get_column_iter();
        columns
            .map(|(name, field)| (name.clone(), value(field)))
            .collect()
    }

    fn read_back(file: Vec<u8>) -> Vec<Value> {
        let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
        let rows = reader.get_row_iter(None).unwrap();
        rows.map(|row| Value::Object(object(&row.unwrap())))
            .collect()
    }

    fn encoded(rows: &[Value]) -> Vec<Value> {
        let rows: Vec<_> = rows.iter().map(|row| row.as_object().unwrap()).collect();
        read_back(encode(&rows).unwrap())
    }

    #[test]
    fn what_is_written_is_read_back() {
        let rows = [
            json!({"index": 0, "mean_ns": 1.5, "holds": true, "profile": "a",
                   "parameters": {"cpus": 4, "policy.target": "local"}, "seed": u64::MAX, "never_ns": null}),
            json!({"index": 1, "mean_ns": 2.0, "holds": false, "profile": "b",
                   "parameters": {"cpus": 8, "policy.target": "search"}, "seed": 1, "never_ns": null}),
        ];
        assert_eq!(encoded(&rows), rows);
    }

    #[test]
    fn what_a_row_does_not_have_is_nothing() {
        let rows = [json!({"a": 1}), json!({"a": null, "b": "x"}), json!({})];
        let expected = [
            json!({"a": 1, "b": null}),
            json!({"a": null, "b": "x"}),
            json!({"a": null, "b": null}),
        ];
        assert_eq!(encoded(&rows), expected);
    }

    #[test]
    fn what_has_no_kind_in_common_is_text() {
        let rows = [
            json!({"p": {"cpus": "all", "n": 1}}),
            json!({"p": {"cpus": [1, 2], "n": 1.5}}),
        ];
        let expected = [
            json!({"p": {"cpus": "all", "n": 1.0}}),
            json!({"p": {"cpus": "[1,2]", "n": 1.5}}),
        ];
        assert_eq!(encoded(&rows), expected);
    }

    #[test]
    fn no_rows_and_empty_objects_are_files_too() {
        assert_eq!(encoded(&[]), Vec::<Value>::new());
        assert_eq!(
            encoded(&[json!({"a": 1, "p": {}})]),
            [json!({"a": 1, "p": "{}"})]
        );
    }
}
