//! The methods of the block.

use proc_macro2::{TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, GenericArgument, Ident, ImplItemFn, LitStr, PathArguments, Result,
    ReturnType, Type,
};

/// A function of the block that callers can call.
pub(crate) struct Method {
    pub(crate) name: LitStr,
    pub(crate) function: Ident,
    /// `#[cfg(…)]` of the function, which all that is made for it needs as well.
    pub(crate) cfgs: Vec<Attribute>,
    pub(crate) read_only: bool,
    pub(crate) idempotent: bool,
    pub(crate) reentrant: bool,
    pub(crate) private: bool,
    pub(crate) atomic: bool,
    /// The sets of methods that it is in.
    pub(crate) sets: Vec<LitStr>,
    /// The types of the argument and of what it answers, where they can be read.
    pub(crate) argument: Option<Type>,
    pub(crate) answer: Option<Type>,
}

const FORM: &str = "fn name(&mut self, ctx: &Context, argument: T) -> Result<R, Error>";
const READ_FORM: &str = "fn name(&self, ctx: &ReadContext, argument: T) -> Result<R, Error>";

impl Method {
    /// Reads a function, and takes its `#[method]` away.
    pub(crate) fn of(function: &mut ImplItemFn) -> Result<Method> {
        let mut method = Method {
            name: LitStr::new(&pascal_case(&function.sig.ident), function.sig.ident.span()),
            function: function.sig.ident.clone(),
            cfgs: Vec::new(),
            read_only: false,
            idempotent: false,
            reentrant: false,
            private: false,
            atomic: false,
            sets: Vec::new(),
            argument: None,
            answer: answer(&function.sig.output),
        };
        for attribute in take(&mut function.attrs, "method") {
            method.options(&attribute)?;
        }
        for attribute in &function.attrs {
            if attribute.path().is_ident("cfg") {
                method.cfgs.push(attribute.clone());
            }
        }
        check_form(function)?;
        if let Some(FnArg::Typed(argument)) = function.sig.inputs.iter().nth(2) {
            method.argument = Some((*argument.ty).clone());
        }
        Ok(method)
    }

    fn options(&mut self, attribute: &Attribute) -> Result<()> {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("name") {
                self.name = meta.value()?.parse()?;
            } else if meta.path.is_ident("read_only") {
                self.read_only = true;
            } else if meta.path.is_ident("idempotent") {
                self.idempotent = true;
            } else if meta.path.is_ident("reentrant") {
                self.reentrant = true;
            } else if meta.path.is_ident("private") {
                self.private = true;
            } else if meta.path.is_ident("atomic") {
                self.atomic = true;
            } else if meta.path.is_ident("in") {
                self.sets.push(meta.value()?.parse()?);
            } else {
                return Err(meta.error(
                    "a method's options are: name = \"…\", read_only, idempotent, reentrant, private, atomic, in = \"…\"",
                ));
            }
            Ok(())
        })
    }

    /// The function, checked for its form. Its tokens are where the function's name is,
    /// as are those of what is made with it, so that the compiler points there.
    fn checked(&self, actor: &Type) -> TokenStream {
        let function = &self.function;
        let check = Ident::new(
            if self.read_only {
                "checked_read_only"
            } else {
                "checked"
            },
            function.span(),
        );
        let actor = located(function, quote!(#actor));
        quote_spanned! {function.span()=>
            ::greenroom::__private::#check(
                ::greenroom::__private::of_type::<#actor>(),
                <#actor>::#function,
            )
        }
    }

    /// The `MethodSpec` of the method.
    pub(crate) fn spec(&self, actor: &Type) -> TokenStream {
        let (name, checked) = (&self.name, self.checked(actor));
        let idempotent = self.idempotent.then(|| quote!(.idempotent()));
        let reentrant = self.reentrant.then(|| quote!(.reentrant()));
        let private = self.private.then(|| quote!(.private()));
        let atomic = self.atomic.then(|| quote!(.atomic()));
        let sets = &self.sets;
        let sets = (!sets.is_empty()).then(|| quote!(.in_sets(&[#(#sets),*])));
        quote_spanned! {self.function.span()=>
            ::greenroom::__private::described(
                &#checked,
                ::greenroom::__private::MethodSpec::new(#name) #idempotent #reentrant #private #atomic #sets,
            )
        }
    }

    /// The function of the struct of typed calls.
    pub(crate) fn typed(&self) -> Result<TokenStream> {
        let (cfgs, name, function) = (&self.cfgs, &self.name, &self.function);
        let answer = self.answer.as_ref().ok_or_else(|| {
            let text = format!("`reference` needs to see what `{function}` answers: write `-> Result<T, E>`");
            Error::new(function.span(), text)
        })?;
        let doc = format!("A call of the method `{}`, or a message to it.", name.value());
        let (input, value) = match &self.argument {
            Some(argument) => (quote!(, input: #argument), quote!(input)),
            None => (quote!(), quote!(::greenroom::Payload::default())),
        };
        Ok(quote! {
            #(#cfgs)*
            #[doc = #doc]
            pub fn #function(&self #input) -> ::greenroom::TypedMessage<#answer> {
                ::greenroom::__private::typed(&self.0, #name, #value)
            }
        })
    }

    /// The call of the method in `Actor::call`, whose `arguments` these are.
    pub(crate) fn run(&self, actor: &Type, arguments: &TokenStream) -> TokenStream {
        let checked = self.checked(actor);
        quote_spanned! {self.function.span()=>
            ::greenroom::__private::run(#checked, #arguments)
        }
    }
}

/// The tokens, as if they were written where `place` is.
pub(crate) fn located(place: &Ident, tokens: TokenStream) -> TokenStream {
    let at = |mut token: TokenTree| {
        token.set_span(place.span());
        token
    };
    tokens.into_iter().map(at).collect()
}

/// Takes the attributes of this name out of the list.
pub(crate) fn take(attributes: &mut Vec<Attribute>, name: &str) -> Vec<Attribute> {
    let (taken, kept) = attributes
        .drain(..)
        .partition(|attribute| attribute.path().is_ident(name));
    *attributes = kept;
    taken
}

/// What can be said of a method's form without knowing types. The rest the compiler
/// says, by way of `greenroom::Method`.
fn check_form(function: &ImplItemFn) -> Result<()> {
    let sig = &function.sig;
    if let Some(token) = &sig.asyncness {
        return Err(Error::new(
            token.span(),
            "a method is not async: a turn runs to its end, and what it waits for returns when it is there",
        ));
    }
    if !sig.generics.params.is_empty() {
        return Err(Error::new(
            sig.generics.span(),
            "a method of an actor has no generic parameters: callers know it by its name alone",
        ));
    }
    let mut inputs = sig.inputs.iter();
    match inputs.next() {
        Some(FnArg::Receiver(receiver)) if receiver.reference.is_none() => {
            return Err(Error::new(
                receiver.span(),
                "a method takes `&mut self`, or `&self` if it is read-only",
            ))
        }
        _ => {}
    }
    let is_reference = |input: &FnArg| matches!(input, FnArg::Typed(typed) if matches!(*typed.ty, Type::Reference(_)));
    if !inputs.next().map_or(false, is_reference) {
        return Err(Error::new(
            sig.ident.span(),
            format!(
                "`{}` takes no context after `self`. A method is written: {FORM}; a read-only one: {READ_FORM}. \
                 A function that is no method goes into an `impl` block without the attribute",
                sig.ident
            ),
        ));
    }
    if let Some(second) = inputs.nth(1) {
        return Err(Error::new(
            second.span(),
            "a method takes one argument after the context; make a struct of several",
        ));
    }
    if let ReturnType::Default = sig.output {
        return Err(Error::new(
            sig.ident.span(),
            format!(
                "`{}` returns nothing; a method returns a Result: write `-> Result<(), Error>`, and `Ok(())` at its end",
                sig.ident
            ),
        ));
    }
    Ok(())
}

/// The `T` of a `Result<T, E>`.
fn answer(output: &ReturnType) -> Option<Type> {
    let path = match output {
        ReturnType::Type(_, ty) => match &**ty {
            Type::Path(path) => path,
            _ => return None,
        },
        ReturnType::Default => return None,
    };
    let last = path.path.segments.last().filter(|s| s.ident == "Result")?;
    match &last.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first()? {
            GenericArgument::Type(ty) => Some(ty.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// `AddLine` of `add_line`.
fn pascal_case(function: &Ident) -> String {
    let name = function.to_string();
    let name = name.strip_prefix("r#").unwrap_or(&name);
    let mut out = String::with_capacity(name.len());
    for word in name.split('_') {
        let mut letters = word.chars();
        if let Some(first) = letters.next() {
            out.extend(first.to_uppercase());
            out.push_str(letters.as_str());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_pascal_case() {
        for (function, want) in [
            ("add", "Add"),
            ("add_line", "AddLine"),
            ("_x1_y", "X1Y"),
            ("r#move", "Move"),
            ("transfer_2", "Transfer2"),
        ] {
            let function: Ident = syn::parse_str(function).unwrap();
            assert_eq!(pascal_case(&function), want);
        }
    }
}
