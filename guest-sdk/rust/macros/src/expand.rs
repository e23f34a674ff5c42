//! From the block to the block and an implementation of `greenroom::Actor`.

use crate::method::{located, take, Method};
use crate::options::Options;
use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Error, Ident, ImplItem, ItemImpl, LitStr, Result, Type};

/// The block as it was, without the attributes that are read here, and what is made of
/// it, or everything that is wrong.
pub(crate) fn actor(options: TokenStream, block: TokenStream) -> TokenStream {
    let mut block: ItemImpl = match syn::parse2(block) {
        Ok(block) => block,
        Err(e) => {
            let e = Error::new(
                e.span(),
                format!("#[greenroom::actor] goes over an `impl` block with methods: {e}"),
            );
            return e.into_compile_error();
        }
    };
    let mut problems = Problems::default();
    let options: Options = problems.keep(syn::parse2(options)).unwrap_or_default();
    let methods = problems.methods(&mut block, options.service.is_some());
    let migrate = problems.migrate(&mut block);
    let name = problems.keep(type_name(&block, &options));
    let reference = problems.reference(&block.self_ty, &options, &methods);
    let made = match (problems.0, name) {
        (None, Some(name)) => {
            implementation(&block.self_ty, &name, &options, &methods, migrate.as_ref())
        }
        (None, None) => TokenStream::new(),
        (Some(e), name) => {
            // With an implementation, so that nobody complains that there is none.
            let stub = name.map(|name| stub(&block.self_ty, &name));
            let e = e.into_compile_error();
            quote!(#e #stub)
        }
    };
    quote!(#block #made #reference)
}

/// What is wrong, all of it.
#[derive(Default)]
struct Problems(Option<Error>);

impl Problems {
    fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(e) => {
                match &mut self.0 {
                    Some(all) => all.combine(e),
                    none => *none = Some(e),
                }
                None
            }
        }
    }

    /// The methods of the block. One of a type that serves a service may have none; that of the
    /// service's trait has the rpcs alone, which the service knows.
    fn methods(&mut self, block: &mut ItemImpl, serves: bool) -> Vec<Method> {
        let mut methods: Vec<Method> = Vec::new();
        if serves && block.trait_.is_some() {
            return methods;
        }
        for item in &mut block.items {
            let function = match item {
                ImplItem::Fn(function) if function.sig.receiver().is_some() => function,
                _ => continue,
            };
            let method = match self.keep(Method::of(function)) {
                Some(method) => method,
                None => continue,
            };
            let same = methods.iter().find(|other| {
                other.name.value() == method.name.value()
                    && other.cfgs.is_empty()
                    && method.cfgs.is_empty()
            });
            if same.is_some() {
                let text = format!(
                    "two methods have the name {:?}; give one of them another: #[method(name = \"…\")]",
                    method.name.value()
                );
                self.keep::<()>(Err(Error::new(method.name.span(), text)));
            }
            methods.push(method);
        }
        if methods.is_empty() && !serves && self.0.is_none() {
            let text = "no function here takes `self`: an actor has at least one method";
            self.keep::<()>(Err(Error::new(block.self_ty.span(), text)));
        }
        methods
    }

    /// The struct of typed calls, if one is asked for.
    fn reference(
        &mut self,
        actor: &Type,
        options: &Options,
        methods: &[Method],
    ) -> Option<TokenStream> {
        let (visibility, reference) = options.reference.as_ref()?;
        let mut calls = Vec::new();
        for method in methods {
            calls.push(self.keep(method.typed())?);
        }
        Some(quote! {
            #[doc = concat!("An actor of the type [`", stringify!(#actor), "`], to be called.")]
            #[derive(Clone, Debug, PartialEq, Eq, Hash)]
            #visibility struct #reference(::greenroom::Ref);

            #[allow(dead_code)]
            impl #reference {
                /// The actor with this ID.
                pub fn new(id: impl ::core::convert::Into<::std::string::String>) -> Self {
                    #reference(::greenroom::Ref::of::<#actor>(id))
                }

                #(#calls)*
            }
        })
    }

    /// The function under `#[migrate]`.
    fn migrate(&mut self, block: &mut ItemImpl) -> Option<Ident> {
        let mut found = None;
        for item in &mut block.items {
            let function = match item {
                ImplItem::Fn(function) => function,
                _ => continue,
            };
            if take(&mut function.attrs, "migrate").is_empty() {
                continue;
            }
            let ident = function.sig.ident.clone();
            let problem = if function.sig.receiver().is_some() {
                "the function that migrates takes no `self`: it works on the keys, before the struct is loaded. Write it: fn migrate(ctx: &Context, from: u32) -> Result<(), Error>"
            } else if found.is_some() {
                "an actor type has one function that migrates"
            } else {
                found = Some(ident);
                continue;
            };
            self.keep::<()>(Err(Error::new(ident.span(), problem)));
        }
        found
    }
}

/// The name that was given, or the struct's.
fn type_name(block: &ItemImpl, options: &Options) -> Result<LitStr> {
    match &block.trait_ {
        Some((_, path, _)) if options.service.is_none() => {
            return Err(Error::new(
                path.span(),
                "#[greenroom::actor] goes over an `impl` block of the struct itself, not of a trait, \
                 but for the trait of a service of Protobuf: #[greenroom::actor(service = walletv1::WalletService)]",
            ));
        }
        _ => {}
    }
    if !block.generics.params.is_empty() {
        return Err(Error::new(
            block.generics.span(),
            "an actor type has no generic parameters",
        ));
    }
    if let Some(name) = &options.name {
        return Ok(name.clone());
    }
    match &*block.self_ty {
        Type::Path(path) if path.qself.is_none() => {
            let last = path.path.segments.last();
            let ident = last.map(|segment| segment.ident.to_string());
            Ok(LitStr::new(&ident.unwrap_or_default(), path.span()))
        }
        other => Err(Error::new(other.span(), "an actor is a struct")),
    }
}

/// An implementation that compiles, for a block that does not.
fn stub(actor: &Type, name: &LitStr) -> TokenStream {
    quote! {
        impl ::greenroom::Actor for #actor {
            const SPEC: ::greenroom::__private::TypeSpec =
                ::greenroom::__private::TypeSpec::new(#name, &[]);

            fn call(
                &mut self,
                _: &::greenroom::Context,
                _: &str,
                _: &str,
                _: &[u8],
            ) -> ::core::option::Option<::greenroom::__private::Reply> {
                ::core::option::Option::None
            }
        }
    }
}

fn implementation(
    actor: &Type,
    name: &LitStr,
    options: &Options,
    methods: &[Method],
    migrate: Option<&Ident>,
) -> TokenStream {
    let assignments = &options.assignments;
    let specs = methods.iter().map(|method| {
        let (cfgs, spec) = (&method.cfgs, method.spec(actor));
        quote!(#(#cfgs)* #spec)
    });
    let arguments = quote!(self, ctx, content_type, payload);
    let arms = methods.iter().map(|method| {
        let (cfgs, name) = (&method.cfgs, &method.name);
        let run = method.run(actor, &arguments);
        quote! {
            #(#cfgs)*
            #name => ::core::option::Option::Some(#run),
        }
    });
    let service = options
        .service
        .as_ref()
        .map(|service| quote!(<#service as ::greenroom::protobuf::Service<#actor>>));
    let serves = service
        .as_ref()
        .map(|service| quote!(spec.protobuf = #service::PROTOBUF;));
    let otherwise = match &service {
        Some(service) => quote! {
            #service::call(::greenroom::protobuf::Rpc { actor: self, ctx, method, content_type, payload })
        },
        None => quote!(::core::option::Option::None),
    };
    let migrates = migrate.map(|_| quote!(spec.migrate = true;));
    let migrate = migrate.map(|function| {
        let call = located(function, quote!(<#actor>::#function));
        quote! {
            fn migrate_state(
                ctx: &::greenroom::Context,
                from: u32,
            ) -> ::core::result::Result<(), ::greenroom::Error> {
                #call(ctx, from)
            }
        }
    });
    quote! {
        impl ::greenroom::Actor for #actor {
            const SPEC: ::greenroom::__private::TypeSpec = {
                const METHODS: &[::greenroom::__private::MethodSpec] = &[#(#specs),*];
                #[allow(unused_mut)]
                let mut spec = ::greenroom::__private::TypeSpec::new(#name, METHODS);
                #(#assignments)*
                #serves
                #migrates
                spec.checked()
            };

            fn call(
                &mut self,
                ctx: &::greenroom::Context,
                method: &str,
                content_type: &str,
                payload: &[u8],
            ) -> ::core::option::Option<::greenroom::__private::Reply> {
                match method {
                    #(#arms)*
                    _ => #otherwise,
                }
            }

            #migrate
        }
    }
}
