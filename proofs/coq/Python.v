(** What the translated operations of Python and of torch mean.

    [translate.py] writes one application for each operation of a function's source; a class below
    gives it its meaning by the types of what it is applied to, as Python does. A tensor of int64
    is a list of integers, a matrix a list of rows; arithmetic on both wraps at 2^64, so that a
    theorem about the result says also that nothing overflowed. Python's own integers never do. *)

From Coq Require Import ZArith List Bool Lia QArith Qround.
Import ListNotations.
Open Scope Z_scope.

Definition wrap (z : Z) : Z := (z + 2 ^ 63) mod 2 ^ 64 - 2 ^ 63.
Definition fits (z : Z) : Prop := - 2 ^ 63 <= z < 2 ^ 63.

Lemma wrap_small z : fits z -> wrap z = z.
Proof. unfold fits, wrap. intros H. rewrite Z.mod_small; lia. Qed.

Definition total (l : list Z) : Z := fold_right Z.add 0 l.

Definition map2 {A B C} (f : A -> B -> C) (a : list A) (b : list B) : list C :=
  map (fun '(x, y) => f x y) (combine a b).

(** ** Operators *)

Class Add A B C := py_add : A -> B -> C.
Class Sub A B C := py_sub : A -> B -> C.
Class Mul A B C := py_mul : A -> B -> C.
Class FloorDiv A B C := py_floordiv : A -> B -> C.
Class Div A B C := py_div : A -> B -> C.
Class Pow A B C := py_pow : A -> B -> C.
Class RightShift A B C := py_rshift : A -> B -> C.
Class LeftShift A B C := py_lshift : A -> B -> C.
Class BitAnd A B C := py_and : A -> B -> C.
Class Neg A := py_neg : A -> A.
Class Le A B C := py_le : A -> B -> C.
Class Lt A B C := py_lt : A -> B -> C.
Class Eq A := py_eq : A -> A -> bool.
Class Truth A := py_truth : A -> bool.

#[export] Instance add_Z : Add Z Z Z := Z.add.
#[export] Instance sub_Z : Sub Z Z Z := Z.sub.
#[export] Instance mul_Z : Mul Z Z Z := Z.mul.
#[export] Instance floordiv_Z : FloorDiv Z Z Z := Z.div.
#[export] Instance pow_Z : Pow Z Z Z := Z.pow.
#[export] Instance rshift_Z : RightShift Z Z Z := Z.shiftr.
#[export] Instance lshift_Z : LeftShift Z Z Z := Z.shiftl.
#[export] Instance and_Z : BitAnd Z Z Z := Z.land.
#[export] Instance neg_Z : Neg Z := Z.opp.
#[export] Instance le_Z : Le Z Z bool := Z.leb.
#[export] Instance le_Q : Le Q Q bool := Qle_bool.
#[export] Instance eq_Z : Eq Z := Z.eqb.
#[export] Instance eq_Q : Eq Q := Qeq_bool.
#[export] Instance lt_Z : Lt Z Z bool := Z.ltb.

Notation vector := (list Z).
Notation matrix := (list (list Z)).

#[export] Instance mul_vector : Mul vector vector vector := map2 (fun x y => wrap (x * y)).
#[export] Instance rshift_vector : RightShift vector Z vector := fun v k => map (fun x => Z.shiftr x k) v.
#[export] Instance and_vector : BitAnd vector Z vector := fun v m => map (fun x => Z.land x m) v.
#[export] Instance le_vector : Le vector Z (list bool) := fun v r => map (fun x => x <=? r) v.
#[export] Instance mul_matrix : Mul matrix matrix matrix := map2 py_mul.
#[export] Instance rshift_matrix : RightShift matrix Z matrix := fun m k => map (fun v => py_rshift v k) m.
#[export] Instance and_matrix : BitAnd matrix Z matrix := fun m k => map (fun v => py_and v k) m.

(** An addition of two costs at one order, of which Python refuses one that is [None]. *)
#[export] Instance add_option : Add (option Z) (option Z) (option Z) := fun a b =>
  match a, b with Some a, Some b => Some (a + b) | _, _ => None end.

#[export] Instance truth_bool : Truth bool := fun b => b.
#[export] Instance truth_list {A} : Truth (list A) := fun l => match l with [] => false | _ => true end.
(** An item of a cost is true unless it is zero or [None]. *)
#[export] Instance truth_option : Truth (option Z) := fun x =>
  match x with Some z => negb (z =? 0) | None => false end.

(** ** Functions of Python *)

Definition py_sum : list Z -> Z := total.
Definition py_max (a b : Z) : Z := Z.max a b.
Definition py_min (l : list Z) : Z := match l with [] => 0 | x :: l => fold_right Z.min x l end.
Definition py_int (z : Z) : Z := z.
Definition py_isqrt (z : Z) : Z := Z.sqrt z.
Definition py_len {A} (l : list A) : Z := Z.of_nat (length l).
Definition py_any {A} `{Truth A} (l : list A) : bool := existsb py_truth l.
Definition py_zip {A B} (a : list A) (b : list B) : list (A * B) := combine a b.
Definition py_map {A B} (l : list A) (f : A -> B) : list B := map f l.
Definition py_filter_map {A B} (l : list A) (f : A -> option B) : list B :=
  flat_map (fun x => match f x with Some y => [y] | None => [] end) l.
Definition py_map2 {A B C} (f : A -> B -> C) (a : list A) (b : list B) : list C := map2 f a b.
Definition py_has_none {A} (l : list (option A)) : bool :=
  existsb (fun x => match x with None => true | _ => false end) l.

(** [range(start, stop, step)] for a positive step. *)
Definition py_range (start stop step : Z) : list Z :=
  map (fun i => start + Z.of_nat i * step)
    (seq 0 (Z.to_nat ((stop - start + step - 1) / step))).

(** [v[start:stop]] for numbers that are not negative. *)
Definition py_slice (v : vector) (start stop : Z) : vector :=
  firstn (Z.to_nat stop - Z.to_nat start) (skipn (Z.to_nat start) v).

(** ** Methods of tensors *)

Class Clamp A := clamp : A -> Z -> Z -> A.
Class ClampMax A := clamp_max : A -> Z -> A.
Class Square A B := square : A -> B.
#[export] Instance clamp_vector : Clamp vector := fun v low high => map (fun x => Z.min (Z.max x low) high) v.
#[export] Instance clamp_matrix : Clamp matrix := fun m low high => map (fun v => clamp v low high) m.
#[export] Instance clamp_max_vector : ClampMax vector := fun v high => map (fun x => Z.min x high) v.
#[export] Instance square_vector : Square vector vector := fun v => map (fun x => wrap (x * x)) v.
#[export] Instance square_matrix : Square matrix matrix := fun m => map square m.

Definition numel (v : vector) : Z := Z.of_nat (length v).
Definition flat (v : vector) : vector := v.
Definition flatten_1 (m : matrix) : matrix := m.
(** Addition modulo 2^64 is associative and commutative, so the order does not matter. *)
Definition sum_dim_1 (m : matrix) : vector := map (fun v => wrap (total v)) m.
Definition dot (a b : vector) : Z := wrap (total (map2 Z.mul a b)).
Definition stack_3 (a b c : vector) : list (Z * Z * Z) := combine (combine a b) c.
Definition tolist {A} (l : list A) : list A := l.
(** [zeros.index_add_(0, places, values)]: value i is added to the entry that [places] names. *)
Definition zeros (n : Z) : vector := repeat 0 (Z.to_nat n).
Definition index_add (start : vector) (places values : vector) : vector :=
  map (fun '(u, x) => wrap (x + total (map snd (filter (fun '(p, _) => p =? Z.of_nat u) (combine places values)))))
    (combine (seq 0 (length start)) start).

(** ** Fractions, and floating-point numbers as such *)

Inductive float := finite (q : Q) | infinite | not_a_number.
Definition ratio (q : Q) : Z * Z := (Qnum q, Zpos (Qden q)).
Definition below_infinity (x : float) : bool := match x with finite _ => true | _ => false end.
Definition fraction (x : float) : Q := match x with finite q => q | _ => 0%Q end.
#[export] Instance sub_Z_Q : Sub Z Q Q := fun z q => (inject_Z z - q)%Q.
#[export] Instance div_Q_Z : Div Q Z Q := fun q z => (q / inject_Z z)%Q.
#[export] Instance mul_Q : Mul Q Q Q := Qmult.
#[export] Instance mul_Q_Z : Mul Q Z Q := fun q z => (q * inject_Z z)%Q.
Definition py_ceil (q : Q) : Z := Qceiling q.

(** ** Integers in double precision

    Rounding a sum of two numbers that are not negative is exact up to 2^53 and never comes back
    below it, whatever is added in whatever order: [Certificate.sum_in_any_order]. So such a sum is
    known, or known to be at least 2^53; the comparison with more than that is not. *)

Inductive double := exactly (z : Z) | large.
Inductive doubles := rows_of (m : list (list Z)).
Definition known (z : Z) : double := if z <=? 2 ^ 53 then exactly z else large.
Definition add_doubles (a b : double) : double :=
  match a, b with exactly a, exactly b => known (a + b) | _, _ => large end.
#[export] Instance square_doubles : Square doubles (list (list double)) := fun d =>
  match d with rows_of m => map (map (fun x => known (x * x))) m end.
Definition sum_dim_1_keepdim (m : list (list double)) : list double :=
  map (fun v => fold_right add_doubles (exactly 0) v) m.
#[export] Instance le_doubles : Le (list double) Z (list bool) := fun v r =>
  map (fun x => match x with exactly z => z <=? r | large => 2 ^ 53 <=? r end) v.

(** ** Classes of the code *)

(** A cost has for each order its units, or [None] where it is infinite. *)
Notation Cost := (list (option Z)).
Definition no_cost (orders : list Q) : Cost := map (fun _ => Some 0) orders.
Definition units (c : Cost) : list (option Z) := c.
Record Budget := { epsilon : Q }.
Record BudgetRule := { budget : Budget; offsets : list Z }.
