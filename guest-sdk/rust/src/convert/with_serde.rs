use super::{FromJson, ToJson};
use crate::error::{Error, Status};

#[cfg_attr(greenroom_do_not_recommend, diagnostic::do_not_recommend)]
impl<T: serde::Serialize + ?Sized> ToJson for T {
    fn to_json(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self)
            .map_err(|e| Error::new(Status::Internal, "not_json", format!("write JSON: {e}")))
    }

    fn append_json(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        serde_json::to_writer(out, self)
            .map_err(|e| Error::new(Status::Internal, "not_json", format!("write JSON: {e}")))
    }
}

#[cfg_attr(greenroom_do_not_recommend, diagnostic::do_not_recommend)]
impl<T: serde::de::DeserializeOwned> FromJson for T {
    fn from_json(text: &[u8]) -> Result<T, Error> {
        Ok(serde_json::from_slice(text)?)
    }
}
