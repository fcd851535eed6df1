(** Charges, their sums and the weights, as the ledger computes them; and what they promise. *)

From Coq Require Import Reals List Lra Lia ZArith Psatz QArith Qreals Qround Bool.
From Weir Require Import Python Code Sums Filter.
Import ListNotations.
Open Scope R_scope.

Lemma map_constant {A B} (x : B) (l : list A) : map (fun _ => x) l = repeat x (length l).
Proof. induction l as [ | y l IH ]; cbn; [ reflexivity | now rewrite IH ]. Qed.

Lemma same_length {A B} (R : A -> B -> Prop) a b : Forall2 R a b -> length a = length b.
Proof. induction 1; cbn; congruence. Qed.

(** ** Rounding up *)

(** Every charge is at least the divergence, if the float is within 1e-9 of it from below; and no
    release is free. *)
Theorem round_up_sound q n rho : round_up (finite q) = Some n ->
  rho <= Q2R q * (1 + / 10 ^ 9) -> rho <= IZR n / unit_size /\ (1 <= n)%Z.
Proof.
  replace (1 + / 10 ^ 9) with (Q2R INFLATION) by (unfold Q2R; cbn; lra).
  unfold round_up, below_infinity, fraction. cbn [negb]. intros H Hrho.
  assert (Hn : n = py_max 1 (py_ceil (py_mul (py_mul q INFLATION) UNIT))) by congruence. clear H.
  unfold py_max, py_ceil, py_mul, mul_Q_Z, mul_Q in Hn.
  set (x := (q * INFLATION * inject_Z UNIT)%Q) in *.
  split; [ | subst n; apply Z.le_max_l ].
  assert (Hx : Q2R x <= IZR n).
  { assert (Hc := Qle_ceiling x). apply Qle_Rle in Hc. eapply Rle_trans; [ exact Hc | ].
    unfold Q2R at 1. cbn [Qnum Qden inject_Z]. rewrite Rinv_1, Rmult_1_r. apply IZR_le. subst n. apply Z.le_max_r. }
  assert (Hu : Q2R x = Q2R q * Q2R INFLATION * unit_size).
  { subst x. rewrite !Q2R_mult. f_equal. unfold Q2R, inject_Z. cbn [Qnum Qden]. rewrite Rinv_1, Rmult_1_r. reflexivity. }
  assert (Hpos := unit_positive). rewrite Hu in Hx.
  apply (Rmult_le_reg_r unit_size); [ exact Hpos | ].
  unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. nra.
Qed.

(** What is not a finite number is charged as infinite. *)
Theorem round_up_refuses x n : round_up x = Some n -> exists q, x = finite q.
Proof. destruct x as [ q | | ]; [ now exists q | discriminate .. ]. Qed.

(** ** Multiples *)

Fixpoint times (n : nat) (c : Cost) : Cost :=
  match n with O => no_cost ORDERS | S n => cost_add (times n c) c end.

Lemma map2_map {A B C} (f : A -> B -> C) (g : B -> A) l : map2 f (map g l) l = map (fun x => f (g x) x) l.
Proof. unfold map2. induction l as [ | x l IH ]; cbn; [ reflexivity | f_equal; exact IH ]. Qed.

Theorem cost_mul_adds c n : length c = length ORDERS -> cost_mul c (Z.of_nat n) = Some (times n c).
Proof.
  intros Hlen. unfold cost_mul. unfold py_lt, lt_Z, py_eq, eq_Z. cbn [orb].
  destruct (Z.ltb_spec (Z.of_nat n) 0); [ lia | ].
  destruct n as [ | n ]; [ reflexivity | ].
  destruct (Z.eqb_spec (Z.of_nat (S n)) 0); [ lia | ]. f_equal. unfold Python.units, py_map.
  induction n as [ | n IH ].
  - cbn [times]. rewrite cost_add_pointwise. unfold no_cost.
    replace (map (fun _ : Q => Some 0%Z) ORDERS) with (map (fun _ : option Z => Some 0%Z) c).
    + rewrite map2_map. apply map_ext. intros [ x | ]; [ | reflexivity ]. unfold py_mul, mul_Z. cbn. f_equal. lia.
    + rewrite !map_constant, Hlen. reflexivity.
  - change (times (S (S n)) c) with (cost_add (times (S n) c) c).
    rewrite cost_add_pointwise, <- IH by lia. rewrite map2_map. apply map_ext.
    intros [ x | ]; [ | reflexivity ]. unfold py_mul, mul_Z. cbn [sum_at_order]. f_equal. lia.
Qed.

(** ** What was executed is covered by what was reserved *)

Lemma cost_le_refl c : cost_le c c.
Proof. induction c as [ | [ n | ] c IH ]; constructor; cbn; auto. exists n. split; [ reflexivity | lia ]. Qed.

Lemma cost_le_add a a' b b' : cost_le a a' -> cost_le b b' -> cost_le (cost_add a b) (cost_add a' b').
Proof.
  rewrite !cost_add_pointwise. intros H. revert b b'.
  induction H as [ | x x' a a' Hx H IH ]; intros b b' Hb; [ constructor | ].
  destruct Hb as [ | y y' b b' Hy Hb ]; [ constructor | ].
  change (cost_le (sum_at_order x y :: map2 sum_at_order a b) (sum_at_order x' y' :: map2 sum_at_order a' b')).
  constructor; [ | now apply IH ].
  destruct x' as [ x' | ], y' as [ y' | ]; cbn in *; auto.
  destruct Hx as (n & -> & Hn), Hy as (m & -> & Hm). exists (n + m)%Z. split; [ reflexivity | lia ].
Qed.

Lemma cost_le_trans a b c : cost_le a b -> cost_le b c -> cost_le a c.
Proof.
  intros H. revert c. induction H as [ | x y a b Hx H IH ]; intros c Hc; inversion Hc as [ | ? z ? c' Hy Hc' ]; subst; constructor.
  - destruct z as [ z | ]; cbn in *; auto. destruct Hy as (n & -> & Hn). destruct Hx as (m & -> & Hm).
    exists m. split; [ reflexivity | lia ].
  - now apply IH.
Qed.

Lemma cost_le_more a b : length a = length b -> cost_nonneg b -> cost_le a (cost_add a b).
Proof.
  rewrite cost_add_pointwise. revert b.
  induction a as [ | x a IH ]; intros [ | y b ] Hlen Hb; try discriminate; [ constructor | ].
  inversion Hb as [ | ? ? Hy Hb' ]; subst.
  change (cost_le (x :: a) (sum_at_order x y :: map2 sum_at_order a b)).
  constructor; [ | apply IH; [ cbn in Hlen; lia | exact Hb' ] ].
  destruct x as [ x | ], y as [ y | ]; cbn; auto. exists x. split; [ reflexivity | lia ].
Qed.

Lemma times_length n c : length c = length ORDERS -> length (times n c) = length ORDERS.
Proof.
  intros H. induction n as [ | n IH ]; cbn [times]; [ unfold no_cost; apply map_length | ].
  rewrite cost_add_length; congruence.
Qed.

Theorem fewer_steps_cost_less setup step used declared : length setup = length ORDERS ->
  length step = length ORDERS -> cost_nonneg step -> (used <= declared)%nat ->
  cost_le (cost_add setup (times used step)) (cost_add setup (times declared step)).
Proof.
  intros Hsetup Hstep H0 Hle. apply cost_le_add; [ apply cost_le_refl | ].
  induction Hle as [ | declared Hle IH ]; [ apply cost_le_refl | ].
  eapply cost_le_trans; [ exact IH | ]. cbn [times]. apply cost_le_more; [ | exact H0 ].
  rewrite times_length by exact Hstep. now symmetry.
Qed.

(** ** Weights, and the promise *)

Definition sum_Q (l : list Q) : Q := fold_right Qplus 0%Q l.

Theorem weights_sum_to_one favourite : In favourite ORDERS -> (sum_Q (weights favourite) == 1)%Q.
Proof.
  assert (H : forallb (fun f => Qeq_bool (sum_Q (weights f)) 1) ORDERS = true) by (vm_compute; reflexivity).
  intros Hin. rewrite forallb_forall in H. now apply Qeq_bool_iff, H.
Qed.

Lemma sum_of_shares delta l shares : Forall2 (fun w share => share <= Q2R w * delta) l shares ->
  finite_sum (fun s => s) shares <= Q2R (sum_Q l) * delta.
Proof.
  induction 1 as [ | w share l shares Hw H IH ]; cbn [finite_sum sum_Q fold_right].
  - unfold Q2R. cbn. lra.
  - rewrite Q2R_plus, Rmult_plus_distr_r. fold (sum_Q l). lra.
Qed.

(** The orders of the grid with a share of delta each. *)
Definition with_shares (shares : list R) : list order := combine (map Q2R ORDERS) shares.

(** Any interaction with a data set whose ledger always had what was reserved within the rule. *)
Theorem the_ledger_keeps_its_promise {O} (eqO : forall x y : O, {x = y} + {x <> y})
  rule favourite shares delta (t : interaction O) (event : list O -> bool) here there :
  In favourite ORDERS -> 0 <= epsilon_of rule ->
  Forall2 (fun w share => share <= Q2R w * delta) (weights favourite) shares ->
  Forall2 offset_above (with_shares shares) (offsets rule) ->
  charged (with_shares shares) t -> admitted rule (no_cost ORDERS) t ->
  sums_to (fun h => if event h then chance true t h else 0) here ->
  sums_to (fun h => if event h then chance false t h else 0) there ->
  here <= exp (epsilon_of rule) * there + delta.
Proof.
  intros Hfav Heps Hshares Hoff Hcharged Hadm Hhere Hthere.
  assert (Hlen : length shares = length ORDERS).
  { apply same_length in Hshares. rewrite <- Hshares. unfold weights, py_map. apply map_length. }
  assert (Hsum : finite_sum snd (with_shares shares) <= delta).
  { assert (Hs := sum_of_shares delta _ _ Hshares).
    rewrite (Qeq_eqR _ _ (weights_sum_to_one favourite Hfav)) in Hs.
    replace (Q2R 1) with 1 in Hs by (unfold Q2R; cbn; lra). rewrite Rmult_1_l in Hs.
    eapply Rle_trans; [ | exact Hs ]. right. unfold with_shares.
    assert (Hl : length (map Q2R ORDERS) = length shares) by (rewrite map_length; now symmetry).
    revert Hl. generalize (map Q2R ORDERS). clear. intros l. revert shares.
    induction l as [ | x l IH ]; intros [ | y shares ] H; try discriminate; [ reflexivity | ].
    cbn in *. rewrite IH by lia. reflexivity. }
  apply (filter_of_events eqO rule (with_shares shares) delta t event here there); auto.
  replace (map (fun _ : order => Some 0%Z) (with_shares shares)) with (no_cost ORDERS); [ exact Hadm | ].
  unfold no_cost, with_shares. rewrite !map_constant. f_equal. rewrite combine_length, map_length. lia.
Qed.
